// An HTTP endpoint that enqueues metered jobs, and the worker that runs them. It needs BURSAR_SERVER and BURSAR_TOKEN.

import { Bursar, createWorker, RefusedError } from '@bursar/sdk';
import express from 'express';

const { BURSAR_SERVER: url = 'http://127.0.0.1:7440', BURSAR_TOKEN: token, PORT = '3000' } = process.env;
const bursar = new Bursar({ url, token });
const app = express().use(express.json());

app.post('/customers/:customer/videos', async (request, response) => {
  const { prompt, seconds } = request.body;
  const command = {
    charges: [{ scope: `customer:${request.params.customer}`, amount: seconds * 1_000 }],
    jobs: [{ queue: 'video', kind: 'video.render', payload: { prompt, seconds } }],
    settle: 'job' as const,
  };
  try {
    // The caller's key makes a repeated request return the first order.
    const order = await bursar.commands.submit(command, { idempotencyKey: request.get('idempotency-key') });
    response.status(202).json({ job: order.jobs[0]?.id });
  } catch (error) {
    if (!(error instanceof RefusedError)) throw error;
    response.status(402).json({ error: error.message, retry_after_ms: error.retryAfterMs ?? null, violations: error.violations });
  }
});

app.get('/videos/:job', async (request, response) => {
  const { state, result, cost } = await bursar.jobs.find(request.params.job);
  response.json({ state, result, cost });
});

const worker = createWorker({ url, token, queues: ['video'] });
// A job runs at least once: pass `ctx.idempotencyKey` to the service that renders, so that it renders once.
worker.on<{ prompt: string; seconds: number }>('video.render', async (job, ctx) => {
  ctx.usage(job.payload.seconds * 700);
  return { url: `https://videos.example/${ctx.idempotencyKey}` };
});

const server = app.listen(Number(PORT), '127.0.0.1', () => console.log('listening on', server.address()));
await worker.run();
server.close();
