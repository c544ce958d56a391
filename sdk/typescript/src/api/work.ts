/** The calls of workers under `/v1/jobs`. The fence of a lease makes every report idempotent, so that it needs no idempotency key. An event that a
 * worker emits has one. */

import { type CallOptions, call } from '../call.js';
import type {
  BeatItem,
  CompleteItem,
  EmitBody,
  FailItem,
  ItemsAnswerOfBeatenAnswer,
  ItemsAnswerOfFinishedAnswer,
  LeaseBody,
  LeasedJobsAnswer,
  ProgressItem,
  ReturnItem,
  SnoozeItem,
} from '../generated/api.js';
import { Resource } from './resource.js';

/** The routes that end a lease.
 * @internal */
export type ReportRoute = 'complete' | 'fail' | 'snooze' | 'return';

/** The calls of workers. `createWorker` makes a worker that uses them. Each returns one answer per item, in order. */
export class Work extends Resource {
  /** Leases jobs; waits for one if `wait_ms` is set. */
  lease(ask: LeaseBody, options?: CallOptions): Promise<LeasedJobsAnswer> {
    const waitsMs = ask.wait_ms ?? 0;
    return call(this.settings, { method: 'POST', path: '/v1/jobs/lease', body: ask, idempotent: true, waitsMs }, options);
  }

  /** Extends leases. */
  heartbeat(items: BeatItem[], options?: CallOptions): Promise<ItemsAnswerOfBeatenAnswer> {
    return this.report('heartbeat', items, options);
  }

  /** Sends the progress of jobs and extends their leases. */
  progress(items: ProgressItem[], options?: CallOptions): Promise<ItemsAnswerOfBeatenAnswer> {
    return this.report('progress', items, options);
  }

  /** Emits an event of the application about a job. A retry emits it once. */
  emit(id: string, event: EmitBody, options?: CallOptions): Promise<void> {
    return call(this.settings, { method: 'POST', path: `/v1/jobs/${encodeURIComponent(id)}/events`, body: event }, options);
  }

  /** Completes jobs. */
  complete(items: CompleteItem[], options?: CallOptions): Promise<ItemsAnswerOfFinishedAnswer> {
    return this.report('complete', items, options);
  }

  /** Reports failed attempts. */
  fail(items: FailItem[], options?: CallOptions): Promise<ItemsAnswerOfFinishedAnswer> {
    return this.report('fail', items, options);
  }

  /** Snoozes jobs: they run later, and the attempts do not count. */
  snooze(items: SnoozeItem[], options?: CallOptions): Promise<ItemsAnswerOfFinishedAnswer> {
    return this.report('snooze', items, options);
  }

  /** Returns jobs to their queues; the attempts do not count. */
  handBack(items: ReturnItem[], options?: CallOptions): Promise<ItemsAnswerOfFinishedAnswer> {
    return this.report('return', items, options);
  }

  /** Sends reports whose items are JSON text already.
   * @internal */
  reportText(route: ReportRoute, items: string[], options?: CallOptions): Promise<ItemsAnswerOfFinishedAnswer> {
    const text = `{"items":[${items.join(',')}]}`;
    return call(this.settings, { method: 'POST', path: `/v1/jobs/${route}`, text, idempotent: true }, options);
  }

  private report<T>(route: string, items: unknown[], options?: CallOptions): Promise<T> {
    return call<T>(this.settings, { method: 'POST', path: `/v1/jobs/${route}`, body: { items }, idempotent: true }, options);
  }
}
