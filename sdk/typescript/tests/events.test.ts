import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { Bursar, type BursarEvent, ForbiddenError, UnreachableError } from '../src/index.js';
import { SseParser } from '../src/sse.js';
import { problem, Scripted } from './scripted.js';
import { Server } from './support.js';

test('events are parsed wherever the text is split', () => {
  const text = 'id: 7\nevent: job.succeeded\ndata: {"a":\ndata: 1}\n\n: \n\nevent: progress\r\ndata: {}\r\n\r\nid: 9\n';
  for (let size = 1; size < text.length; size += 1) {
    const parser = new SseParser();
    const frames = [];
    for (let at = 0; at < text.length; at += size) frames.push(...parser.feed(text.slice(at, at + size)));
    assert.deepEqual(frames, [
      { id: '7', event: 'job.succeeded', data: '{"a":\n1}' },
      { id: undefined, event: 'progress', data: '{}' },
    ]);
  }
});

test('an event above the maximum size is refused', () => {
  const parser = new SseParser();
  const part = 'x'.repeat(1 << 20);
  assert.throws(() => {
    for (let n = 0; n < 17; n += 1) parser.feed(part);
  }, /more than/);
});

test('a broken stream continues after the last event', async () => {
  const event = (position: number) => `id: ${position}\nevent: a.b\ndata: ${JSON.stringify({ position, kind: 'a.b' })}\n\n`;
  const stream = (text: string) => (response: import('node:http').ServerResponse) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.write(text);
    setTimeout(() => response.destroy(), 20);
  };
  const server = await Scripted.start(stream(event(1) + event(2)), problem('overloaded', 503), stream(event(3)));
  const events = new Bursar({ url: server.url }).events(['queue:a,b', 'journal'], { after: 0 });
  const seen: number[] = [];
  for await (const message of events) {
    if (message.type === 'event') seen.push(message.position);
    if (seen.length === 3) break;
  }
  await server.stop();
  assert.deepEqual(seen, [1, 2, 3]);
  assert.equal(events.position, 3);
  assert.deepEqual(
    server.seen.map((request) => request.headers['last-event-id']),
    ['0', '2', '2'],
  );
  assert.equal(server.seen[0]?.path, '/v1/events?channels=queue%3Aa%252Cb%2Cjournal');
});

test('a stream that the server refuses, or that cannot be reached, fails', async () => {
  const refusing = await Scripted.start(problem('forbidden', 403));
  const read = async (url: string) => {
    for await (const _ of new Bursar({ url, timeoutMs: 500 }).events('journal')) assert.fail('no event was expected');
  };
  await assert.rejects(read(refusing.url), ForbiddenError);
  await refusing.stop();
  await assert.rejects(read(refusing.url), UnreachableError);
});

describe('a real server', () => {
  let server: Server;
  let bursar: Bursar;
  before(async () => {
    server = await Server.start();
    bursar = server.client();
  });
  after(() => server.stop());

  test('a stream survives a kill of the server and misses no event', async () => {
    await bursar.budgets.define('s', { limits: [{ amount: 1_000, window: 'lifetime' }] });
    const events = bursar.events('budget:s', { after: 0 })[Symbol.asyncIterator]();
    const spend = (amount: number) => bursar.commands.submit({ charges: [{ scope: 's', amount }] });
    const next = async (kind: string): Promise<BursarEvent> => {
      for (;;) {
        const { value, done } = await events.next();
        assert.ok(!done, 'the stream ended');
        if (value.type === 'event' && value.event.kind === kind) return value;
      }
    };
    await spend(1);
    const first = await next('spend.posted').catch((error) => error);
    assert.equal(first.type, 'event');
    await server.kill();
    await server.again();
    await spend(2);
    const second = await next('spend.posted');
    assert.ok(second.type === 'event' && second.position > first.position);
    await events.return();
  });

  test('a signal ends a stream', async () => {
    const abort = new AbortController();
    const types = [];
    for await (const message of bursar.events('journal', { signal: abort.signal })) {
      types.push(message.type);
      abort.abort();
    }
    assert.deepEqual(types, ['ready']);
  });
});
