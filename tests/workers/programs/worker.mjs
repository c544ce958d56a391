// The worker program of the TypeScript SDK. README.md describes what it does.

import { appendFileSync, existsSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { createWorker, NonRetryableError, RetryAfter, Snooze } from '../../../sdk/typescript/dist/index.js';

const { env } = process;
const number = (text) => (text === undefined ? undefined : Number(text));

const worker = createWorker({
  url: env.BURSAR_SERVER,
  token: env.BURSAR_TOKEN,
  name: env.WORKER_NAME,
  queues: [env.WORKER_QUEUE],
  concurrency: Number(env.WORKER_CONCURRENCY),
  leaseMs: number(env.WORKER_LEASE_MS),
  graceMs: number(env.WORKER_GRACE_MS),
});

/** Registers a handler that logs its start and its end. */
function on(kind, handler, options) {
  const logged = async (job, ctx) => {
    const log = (event, more = {}) => appendFileSync(env.WORKER_LOG, `${JSON.stringify({ event, job: job.id, attempt: job.attempt, ...more })}\n`);
    log('started');
    try {
      return await handler(job, ctx, log);
    } finally {
      log('finished');
    }
  };
  if (options) worker.on(kind, options, logged);
  else worker.on(kind, logged);
}

/** A validator in the form that zod and others have. */
const withInteger = {
  '~standard': {
    version: 1,
    vendor: 'scenarios',
    validate: (value) => (Number.isInteger(value?.n) ? { value: { n: value.n } } : { issues: [{ message: 'must be an integer', path: ['n'] }] }),
  },
};

on('echo', (job) => job.payload);
on('context', ({ id, attempt, idempotency_key = null, key = null, tags = [], metadata = null }) => ({ id, attempt, idempotency_key, key, tags, metadata }));
on('typed', (job) => ({ n: job.payload.n }), { payload: withInteger });
on('spend', (job, ctx) => {
  for (const units of job.payload.usage) ctx.usage(units);
  return null;
});
on('gate', async (job, ctx, log) => {
  const index = job.attempt - 1;
  const usage = job.payload.usage?.[index];
  const gate = job.payload.gates?.[index];
  if (typeof usage === 'number') ctx.usage(usage);
  if (typeof gate === 'string') {
    while (!ctx.signal.aborted && !existsSync(join(env.WORKER_FOLDER, gate))) await sleep(20);
  }
  if (ctx.signal.aborted) {
    log('stopped', { reason: ctx.stop });
    if (ctx.stop === 'cancelled') throw new Error('stopped');
  }
  return { attempt: job.attempt };
});
on('block', (job) => {
  const until = performance.now() + job.payload.ms;
  while (performance.now() < until);
  return { attempt: job.attempt };
});
on('poison', () => {
  throw new Error('poison');
});
on('fatal', () => {
  throw new NonRetryableError('cannot succeed', { kind: 'fatal' });
});
const snoozed = new Set();
on('later', (job) => {
  if (snoozed.has(job.id)) return { attempt: job.attempt };
  snoozed.add(job.id);
  throw new Snooze(1);
});
on('after', (job) => {
  if (job.attempt === 1) throw new RetryAfter(1, 'come back');
  return { attempt: job.attempt };
});
on('progress', async (_, ctx) => {
  await ctx.progress({ percent: 50, message: 'half', data: { step: 1 } });
  return null;
});
on('resume', async (job, ctx) => {
  const from = ctx.checkpoint?.step ?? null;
  const step = (from ?? 0) + 1;
  await ctx.progress({ percent: step, checkpoint: { step } });
  // A report without a checkpoint leaves the last one.
  await ctx.progress(step + 0.5);
  if (job.attempt < job.payload.attempts) throw new RetryAfter(1, 'go on');
  return { attempt: job.attempt, from };
});
on('nested', async (job, ctx) => {
  await ctx.progress({ percent: 10 });
  ctx.usage(3);
  if (job.attempt === 1) throw new Error('after spending');
  return { attempt: job.attempt };
});

const report = await worker.run();
console.log(JSON.stringify(report));
