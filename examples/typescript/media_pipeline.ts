// A media pipeline: upload a file, order its conversion within a budget, watch the progress, read the result and its real cost. It needs
// BURSAR_SERVER and BURSAR_TOKEN.

import { Bursar, createWorker } from '@bursar/sdk';

const { BURSAR_SERVER: url = 'http://127.0.0.1:7440', BURSAR_TOKEN: token } = process.env;
const bursar = new Bursar({ url, token });

// The worker: a job runs at least once, so make it safe to repeat. Equal bytes are stored once.
const worker = createWorker({ url, token, queues: ['media'] });
worker.on<{ upload: string }>('text.shout', async (job, ctx) => {
  const text = await (await ctx.blobs.get(job.payload.upload)).text();
  await ctx.progress({ percent: 50, message: 'half of it' });
  const made = await ctx.blobs.put(text.toUpperCase(), { namespace: 'media', filename: 'loud.txt', contentType: 'text/plain' });
  ctx.usage(text.length * 3);
  return { blob: made.id };
});
const running = await worker.start();

// The order: the estimate is held and the job enqueued in one transaction. The job keeps the upload as long as it needs it.
await bursar.budgets.define('customer:7', { limits: [{ amount: 10_000, window: 'month' }] });
const upload = await bursar.blobs.put('a quiet harbour', { namespace: 'media', filename: 'quiet.txt', contentType: 'text/plain' });
const order = await bursar.commands.submit({
  charges: [{ scope: 'customer:7', amount: 500 }],
  jobs: [{ queue: 'media', kind: 'text.shout', payload: { upload: upload.id }, blobs: [upload.id] }],
  settle: 'job',
});

// Progress is not stored: it reaches those who listen while the job runs.
const ended = new AbortController();
const watching = (async () => {
  for await (const message of bursar.events(`job:${order.jobs[0]?.id}`, { signal: ended.signal })) {
    if (message.type === 'progress') console.log(`${message.percent} %: ${message.message}`);
  }
})();
const job = await bursar.jobs.wait(order.jobs[0]?.id as string);
ended.abort();
await watching;
const { blob } = job.result as { blob: string };
console.log(job.state, job.cost, await (await bursar.blobs.get(blob)).text());
await running.drain();
