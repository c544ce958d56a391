/** The builder of a worker. */

import { callSettings } from '../call.js';
import { Bursar } from '../client.js';
import { ArgumentError } from '../errors.js';
import type { LeasedAnswer } from '../generated/api.js';
import type { Job, JobContext } from './context.js';
import { NonRetryableError } from './outcome.js';
import type { WorkerReport } from './reports.js';
import { RunningWorker } from './run.js';
import { type StandardSchema, validate } from './schema.js';

/** Settings of a worker. */
export interface WorkerOptions {
  /** The URL of the server, such as `http://127.0.0.1:7440`. */
  url: string;
  /** The token of the worker. */
  token?: string;
  /** The tenant to act for; only an operator may choose one. */
  tenant?: string;
  /** The queues to lease jobs from. */
  queues: string[];
  /** How many handlers run at the same time; default: 10. */
  concurrency?: number;
  /** The name of the worker in the journal; default: a name with the process id. A worker token has a name of its own. */
  name?: string;
  /** How long a lease lasts without a heartbeat; default: the queue's setting. */
  leaseMs?: number;
  /** How many short jobs may be leased ahead of those that run; default: 500. */
  ahead?: number;
  /** How long a handler that must stop may go on before its job is reported without it; default: 30 seconds. */
  graceMs?: number;
  /** Gets warnings of the worker; default: `console.warn`. */
  log?: (message: string) => void;
}

/** A function that works on a job. What it returns is stored as the job's result.
 *
 * A job runs **at least once**: make the handler safe to repeat. */
export type Handler<Payload = unknown> = (job: Job<Payload>, ctx: JobContext) => unknown;

/** Makes a worker. It runs after `run` or `start`.
 *
 * ```ts
 * const worker = createWorker({ url, token, queues: ['media'], concurrency: 4 });
 * // A job runs at least once: make the handler safe to repeat.
 * worker.on<{ seconds: number }>('video.cut', async (job, ctx) => {
 *   ctx.usage(job.payload.seconds * 10);
 *   return `cut ${job.payload.seconds} s`;
 * });
 * await worker.run();
 * ``` */
export function createWorker(options: WorkerOptions): Worker {
  return new Worker(options);
}

/** A handler that has its payload validated. */
type Handle = (job: LeasedAnswer, ctx: JobContext) => Promise<unknown>;

/** How long a lease call waits for jobs. */
const WAIT_MS = 20_000;
const CONCURRENCY_MAX = 1_000;
let workers = 0;

/** A worker. */
export class Worker {
  private readonly handlers = new Map<string, Handle>();

  constructor(private readonly options: WorkerOptions) {
    const { queues, concurrency = 10 } = options;
    if (queues.length === 0) throw new ArgumentError('queues: must not be empty');
    if (!Number.isInteger(concurrency) || concurrency < 1 || concurrency > CONCURRENCY_MAX) {
      throw new ArgumentError(`concurrency: must be from 1 to ${CONCURRENCY_MAX}`);
    }
  }

  /** Sets the handler for jobs of a kind; `video.*` matches every kind that begins with `video.`. The worker leases no other kinds.
   *
   * A job runs **at least once**. An error of the handler is a failed attempt, which is retried; `NonRetryableError`, `RetryAfter` and `Snooze`
   * end it in other ways. With `payload`, a Standard Schema validator such as one of zod, a payload that is not valid makes the job dead. */
  on<Payload = unknown>(kind: string, handler: Handler<Payload>): this;
  on<Payload>(kind: string, options: { payload: StandardSchema<Payload> }, handler: Handler<Payload>): this;
  on<Payload>(kind: string, first: Handler<Payload> | { payload: StandardSchema<Payload> }, second?: Handler<Payload>): this {
    if (typeof first === 'function') {
      this.handlers.set(kind, async (job, ctx) => first(job as Job<Payload>, ctx));
    } else if (second) {
      this.handlers.set(kind, async (job, ctx) => {
        const checked = await validate(first.payload, job.payload);
        if ('invalid' in checked) throw new NonRetryableError(checked.invalid, { kind: 'payload' });
        return second({ ...job, payload: checked.value }, ctx);
      });
    }
    return this;
  }

  /** Runs until the process receives `SIGTERM` or `SIGINT`, then drains: returns the jobs that were not started, which does not count as an
   * attempt, tells running handlers to stop and waits for them. A second signal ends the process at once. Rejects if the server denies the worker. */
  async run(): Promise<WorkerReport> {
    const running = await this.start();
    const drain = () => {
      process.off('SIGTERM', drain);
      process.off('SIGINT', drain);
      // A failure is reported by `done`.
      running.drain().catch(() => undefined);
    };
    process.on('SIGTERM', drain);
    process.on('SIGINT', drain);
    try {
      return await running.done;
    } finally {
      process.off('SIGTERM', drain);
      process.off('SIGINT', drain);
    }
  }

  /** Starts the worker and returns its handle. */
  async start(): Promise<RunningWorker> {
    if (this.handlers.size === 0) throw new ArgumentError('the worker has no handler');
    const { url, token, tenant, queues, name, leaseMs } = this.options;
    const thread = { url: callSettings(this.options).url, token, tenant };
    workers += 1;
    const ask = {
      queues,
      kinds: [...this.handlers.keys()],
      wait_ms: WAIT_MS,
      lease_ms: leaseMs,
      // A worker token determines the name.
      worker: token?.startsWith('bwk_') ? undefined : (name ?? `worker-${process.pid}-${workers}`),
    };
    // Imported here, so that the client runs where there are no threads.
    const { Worker: Thread } = await import('node:worker_threads');
    const settings = {
      bursar: new Bursar({ url, token, tenant }),
      thread,
      ask,
      concurrency: this.options.concurrency ?? 10,
      aheadMax: this.options.ahead ?? 500,
      graceMs: this.options.graceMs ?? 30_000,
      handle: (job: LeasedAnswer, ctx: JobContext) => this.find(job.kind)?.(job, ctx),
      log: this.options.log ?? ((message: string) => console.warn(`bursar worker: ${message}`)),
    };
    return new RunningWorker(settings, new Thread(new URL('./lease_thread.js', import.meta.url), { workerData: thread }));
  }

  /** Returns the handler of a kind: the one with its exact name, else the one with the longest matching prefix before a `*`. */
  private find(kind: string): Handle | undefined {
    const exact = this.handlers.get(kind);
    if (exact) return exact;
    let longest: string | undefined;
    for (const pattern of this.handlers.keys()) {
      const matches = pattern.endsWith('*') && kind.startsWith(pattern.slice(0, -1));
      if (matches && pattern.length > (longest?.length ?? 0)) longest = pattern;
    }
    return longest === undefined ? undefined : this.handlers.get(longest);
  }
}
