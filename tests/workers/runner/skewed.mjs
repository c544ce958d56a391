// A proxy that shifts every time in the server's answers, so that a worker sees a server whose clock is wrong.

import { createServer, request } from 'node:http';

const TIME = /"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z)"/g;

/** Starts a proxy before a server; returns its URL and how to stop it. */
export async function startSkewed(server, shiftMs) {
  const proxy = createServer((incoming, outgoing) => {
    const { method, url, headers } = incoming;
    const target = new URL(server.url);
    const options = { host: target.hostname, port: target.port, method, path: url, headers: { ...headers, host: target.host } };
    const forward = request(options, (answer) => {
      const parts = [];
      answer.on('data', (part) => parts.push(part));
      answer.on('error', () => outgoing.destroy());
      answer.on('end', () => {
        const shifted = Buffer.from(shift(Buffer.concat(parts).toString(), shiftMs));
        const date = new Date(Date.now() + shiftMs).toUTCString();
        const { 'transfer-encoding': _, ...rest } = answer.headers;
        outgoing.writeHead(answer.statusCode, { ...rest, date, 'content-length': shifted.length });
        outgoing.end(shifted);
      });
    });
    forward.on('error', () => outgoing.destroy());
    outgoing.on('close', () => forward.destroy());
    incoming.pipe(forward);
  });
  await new Promise((done) => proxy.listen(0, '127.0.0.1', done));
  const stop = () => {
    proxy.closeAllConnections();
    proxy.close();
  };
  return { url: `http://127.0.0.1:${proxy.address().port}`, stop };
}

function shift(text, shiftMs) {
  return text.replace(TIME, (_, time) => JSON.stringify(new Date(Date.parse(time) + shiftMs).toISOString()));
}
