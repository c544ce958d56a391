/** A running worker: leases jobs, runs their handlers, drains at the end. */

import type { Worker as Thread } from 'node:worker_threads';
import type { Bursar } from '../client.js';
import { BursarError, problemError } from '../errors.js';
import type { LeaseBody, LeasedAnswer, LeasedJobsAnswer } from '../generated/api.js';
import { JobContext } from './context.js';
import { completed, type Finish, failed, keyOf, overdue, returned } from './finish.js';
import type { FromThread, LeaseKey, ThreadSettings, ToThread } from './protocol.js';
import { CompletionRate } from './rate.js';
import { Reports, type WorkerReport } from './reports.js';

/** The maximum number of jobs in one lease call. */
const CAPACITY_MAX = 1_000;

/** The checked settings of a worker. */
export interface RunSettings {
  bursar: Bursar;
  thread: ThreadSettings;
  /** The lease request; each call sets its own capacity. */
  ask: LeaseBody;
  concurrency: number;
  aheadMax: number;
  graceMs: number;
  /** Runs the handler of a job; `undefined` if there is none. */
  handle(job: LeasedAnswer, ctx: JobContext): Promise<unknown> | undefined;
  log(message: string): void;
}

/** A worker that runs. */
export class RunningWorker {
  /** Ends when the worker has drained; rejects if the server denied the worker. */
  readonly done: Promise<WorkerReport>;
  private readonly rate = new CompletionRate(performance.now());
  private readonly reports: Reports;
  /** Jobs that are leased and wait for a free handler. */
  private ready: LeasedAnswer[] = [];
  private readonly running = new Map<string, JobContext>();
  private leasing = false;
  private draining = false;
  private threadDrained: () => void = () => undefined;
  private readonly whenThreadDrained = new Promise<void>((done) => (this.threadDrained = done));
  private idle: (() => void)[] = [];
  private denied: Error | undefined;
  private finish: (report: WorkerReport) => void = () => undefined;
  private fail: (error: Error) => void = () => undefined;

  /** @internal */
  constructor(
    private readonly settings: RunSettings,
    private readonly thread: Thread,
  ) {
    this.done = new Promise((done, fail) => {
      this.finish = done;
      this.fail = fail;
    });
    this.reports = new Reports(settings.bursar.work, {
      ended: (leases) => {
        this.tell({ type: 'end', leases });
        this.pump();
      },
      log: settings.log,
    });
    thread.on('message', (message: FromThread) => this.receive(message));
    thread.on('error', (error) => this.stopWith(error));
    this.pump();
  }

  /** Stops leasing, returns the jobs that were not started, and waits for the running handlers. */
  drain(): Promise<WorkerReport> {
    if (!this.draining) void this.drainNow();
    return this.done;
  }

  private async drainNow(): Promise<void> {
    this.draining = true;
    this.tell({ type: 'drain' });
    this.reports.drain(this.settings.graceMs);
    for (const job of this.ready.splice(0)) this.reports.send(returned(job));
    for (const ctx of this.running.values()) ctx.mustStop('draining');
    while (this.running.size > 0) await new Promise<void>((done) => this.idle.push(done));
    await this.whenThreadDrained;
    // Heartbeats go on until all reports are accepted.
    await this.reports.settled();
    await this.thread.terminate();
    if (this.denied) this.fail(this.denied);
    else this.finish(this.reports.counts);
  }

  private stopWith(error: Error): void {
    this.denied ??= error;
    this.threadDrained();
    void this.drain().catch(() => undefined);
  }

  private tell(message: ToThread): void {
    this.thread.postMessage(message);
  }

  private receive(message: FromThread): void {
    if (message.type === 'leased') this.leased(message.text);
    else if (message.type === 'lost') this.lost(message.lease);
    else if (message.type === 'order') this.ordered(message.lease, message.order);
    else if (message.type === 'drained') this.threadDrained();
    else if (message.type === 'warn') this.settings.log(message.message);
    else this.stopWith(denial(message));
  }

  private leased(text: string): void {
    this.leasing = false;
    const { jobs } = JSON.parse(text) as LeasedJobsAnswer;
    // Jobs of a call that was in flight when the worker began to drain.
    if (this.draining) for (const job of jobs) this.reports.send(returned(job));
    else this.ready.push(...jobs);
    this.pump();
  }

  private lost(lease: LeaseKey): void {
    this.running.get(nameOf(lease))?.mustStop('lost');
    this.ready = this.ready.filter((job) => !isLease(job, lease));
  }

  private ordered(lease: LeaseKey, order: 'cancel' | 'drain'): void {
    const ctx = this.running.get(nameOf(lease));
    if (ctx && order === 'cancel') ctx.mustStop('cancelled');
    const index = this.ready.findIndex((job) => isLease(job, lease));
    if (index < 0) return;
    for (const job of this.ready.splice(index, 1)) this.reports.send(returned(job));
  }

  /** Starts handlers, and leases jobs if there is room for them. */
  private pump(): void {
    if (this.draining) return;
    const { concurrency } = this.settings;
    const free = this.reports.full ? 0 : concurrency - this.running.size;
    for (const job of this.ready.splice(0, free)) this.start(job);
    this.lease();
  }

  private lease(): void {
    if (this.leasing) return;
    const { concurrency, aheadMax } = this.settings;
    const ahead = Math.min(this.rate.jobsAhead(performance.now()), aheadMax);
    const have = this.running.size + this.ready.length;
    const room = concurrency + ahead - have;
    // If handlers have enough to do, a small room is not worth a call.
    if (room <= 0 || (have >= concurrency && room < Math.ceil(ahead / 4))) return;
    this.leasing = true;
    this.tell({ type: 'lease', ask: { ...this.settings.ask, capacity: Math.min(room, CAPACITY_MAX) } });
  }

  private start(job: LeasedAnswer): void {
    const ctx = new JobContext(this.settings.bursar, job);
    const name = nameOf(keyOf(job));
    this.running.set(name, ctx);
    void this.runHandler(job, ctx).then((finish) => {
      this.running.delete(name);
      this.rate.jobEnded(performance.now());
      if (finish) this.reports.send(finish);
      else this.tell({ type: 'end', leases: [keyOf(job)] });
      this.pump();
      if (this.running.size === 0) for (const done of this.idle.splice(0)) done();
    });
  }

  /** Runs a handler and returns how its lease ends; `undefined` if the lease is lost and nothing was spent. */
  private runHandler(job: LeasedAnswer, ctx: JobContext): Promise<Finish | undefined> {
    return new Promise((done) => {
      let timer: ReturnType<typeof setTimeout> | undefined;
      const end = (finish: Finish | undefined) => {
        clearTimeout(timer);
        done(finish);
      };
      // A handler that must stop has the grace period to finish; then its job is reported without it.
      ctx.onStop(() => {
        timer = setTimeout(() => done(overdue(job, ctx)), this.settings.graceMs);
      });
      const handled = this.settings.handle(job, ctx);
      if (!handled) return end(returned(job));
      handled.then(
        (result) => end(completed(job, ctx, result)),
        (error) => end(failed(job, ctx, error)),
      );
    });
  }
}

function nameOf(lease: LeaseKey): string {
  return `${lease.id}:${lease.fence}`;
}

function isLease(job: LeasedAnswer, lease: LeaseKey): boolean {
  return job.id === lease.id && job.lease?.fence === lease.fence;
}

function denial(message: { problem: unknown; message: string }): Error {
  const problem = message.problem as Parameters<typeof problemError>[0] | undefined;
  return problem ? problemError(problem) : new BursarError(message.message);
}
