// A worker that cuts videos, and a program that orders one. It needs BURSAR_SERVER and BURSAR_TOKEN.

import { Bursar, createWorker } from '@bursar/sdk';

const { BURSAR_SERVER: url = 'http://127.0.0.1:7440', BURSAR_TOKEN: token } = process.env;
const bursar = new Bursar({ url, token });
const worker = createWorker({ url, token, queues: ['media'], concurrency: 4 });

// A job runs at least once: make the handler safe to repeat.
worker.on<{ asset: string; seconds: number }>('video.cut', async (job, ctx) => {
  await ctx.progress({ percent: 10, message: `cutting ${job.payload.asset}` });
  ctx.usage(job.payload.seconds * 7);
  return { url: `https://videos.example/${job.id}` };
});
const running = await worker.start();

// Hold the estimated cost and enqueue the job, in one transaction. The end of the job settles the hold.
await bursar.budgets.define('customer:7', { limits: [{ amount: 10_000, window: 'month' }] });
const order = await bursar.commands.submit({
  charges: [{ scope: 'customer:7', amount: 500 }],
  jobs: [{ queue: 'media', kind: 'video.cut', payload: { asset: 'holiday.mp4', seconds: 60 } }],
  settle: 'job',
});

const { result, cost } = await bursar.jobs.wait(order.jobs[0]?.id as string);
console.log(result, cost);
await running.drain();
