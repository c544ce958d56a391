/** `/v1/jobs`, `/v1/dead`, `/v1/costs` and `/v1/held`. */

import { type CallOptions, segment } from '../call.js';
import { BursarError } from '../errors.js';
import { EventStream } from '../events.js';
import type {
  ActedAnswer,
  AttemptAnswer,
  DayCostAnswer,
  DeadGroupAnswer,
  EditBody,
  EditManyBody,
  EnqueuedAnswer,
  EnqueuedJobsAnswer,
  EventAnswer,
  FinishedAnswer,
  HeldAnswer,
  JobAnswer,
  JobBody,
  JobState,
  MoveManyBody,
  SelectionBody,
} from '../generated/api.js';
import type { List } from '../page.js';
import { type ListOptions, type PastOptions, type ReasonOptions, Resource } from './resource.js';

/** Which jobs a list has. */
export interface JobQuery extends ListOptions {
  queue?: string;
  state?: JobState;
  /** A kind, or a prefix of kinds followed by `*`. */
  kind?: string;
  key?: string;
  tag?: string;
  fingerprint?: string;
  order?: 'oldest' | 'newest';
}

const ENDED = new Set<JobState>(['succeeded', 'dead', 'cancelled']);

/** The calls for jobs. */
export class Jobs extends Resource {
  /** Enqueues a job. */
  enqueue(job: JobBody, options?: CallOptions): Promise<EnqueuedAnswer> {
    return this.postJson('/v1/jobs', job, options);
  }

  /** Enqueues up to 100,000 jobs. */
  enqueueAll(jobs: JobBody[], options?: CallOptions): Promise<EnqueuedJobsAnswer> {
    return this.postJson('/v1/jobs/bulk', { jobs }, options);
  }

  /** Returns a job. */
  find(id: string, options?: PastOptions): Promise<JobAnswer> {
    return this.getOne(at(id), options);
  }

  /** Waits until a job has ended, and returns it: `state` is `succeeded`, `dead` or `cancelled`. It waits as long as it takes, unless `signal`
   * aborts, such as `AbortSignal.timeout(60_000)`. */
  async wait(id: string, options: { signal?: AbortSignal } = {}): Promise<JobAnswer> {
    for await (const message of new EventStream(this.settings, [`job:${id}`], options)) {
      // Events and positions tell that the job may have changed; progress does not.
      if (message.type === 'progress' || message.type === 'refused') continue;
      const job = await this.find(id, options);
      if (ENDED.has(job.state)) return job;
    }
    options.signal?.throwIfAborted();
    throw new BursarError('the event stream has ended');
  }

  /** Lists jobs. */
  all(query: JobQuery = {}, options?: CallOptions): List<JobAnswer> {
    return this.list('/v1/jobs', query, options);
  }

  /** Lists the attempts of a job. */
  attempts(id: string, options?: CallOptions): List<AttemptAnswer> {
    return this.list(`${at(id)}/attempts`, {}, options);
  }

  /** Lists the events of a job. */
  events(id: string, query?: ListOptions, options?: CallOptions): List<EventAnswer> {
    return this.list(`${at(id)}/events`, query, options);
  }

  /** Changes a job that does not run. */
  edit(id: string, change: EditBody, options?: CallOptions): Promise<FinishedAnswer> {
    return this.patchJson(at(id), change, options);
  }

  /** Cancels a job. A running one is told to stop by its next heartbeat. */
  cancel(id: string, options?: ReasonOptions): Promise<FinishedAnswer> {
    return this.act(`${at(id)}/cancel`, options);
  }

  /** Retries a job now. */
  retry(id: string, options?: ReasonOptions): Promise<FinishedAnswer> {
    return this.act(`${at(id)}/retry`, options);
  }

  /** Discards a dead job. */
  discard(id: string, options?: ReasonOptions): Promise<FinishedAnswer> {
    return this.act(`${at(id)}/discard`, options);
  }

  /** Erases the payload and the result of a job that has ended. */
  erase(id: string, options?: ReasonOptions): Promise<FinishedAnswer> {
    return this.act(`${at(id)}/erase`, options);
  }

  /** Moves a job to another queue. */
  move(id: string, to: string, options: ReasonOptions = {}): Promise<FinishedAnswer> {
    const { reason, ...rest } = options;
    return this.postJson(`${at(id)}/move`, { to, reason }, rest);
  }

  /** Cancels all jobs of a selection. */
  cancelAll(selection: SelectionBody, options?: CallOptions): Promise<ActedAnswer> {
    return this.postJson('/v1/jobs/cancel', selection, options);
  }

  /** Retries all jobs of a selection. */
  retryAll(selection: SelectionBody, options?: CallOptions): Promise<ActedAnswer> {
    return this.postJson('/v1/jobs/retry', selection, options);
  }

  /** Erases the payloads and results of all jobs of a selection that have ended. */
  eraseAll(selection: SelectionBody, options?: CallOptions): Promise<ActedAnswer> {
    return this.postJson('/v1/jobs/erase', selection, options);
  }

  /** Changes all jobs of a selection. */
  editAll(change: EditManyBody, options?: CallOptions): Promise<ActedAnswer> {
    return this.postJson('/v1/jobs/edit', change, options);
  }

  /** Lists the cost of jobs by day, queue, kind and scope. */
  costs(query: { from: string; to?: string } & ListOptions, options?: CallOptions): List<DayCostAnswer> {
    return this.list('/v1/costs', query, options);
  }

  /** Lists the units that jobs hold now. */
  held(query: ListOptions & { queue?: string } = {}, options?: CallOptions): List<HeldAnswer> {
    return this.list('/v1/held', query, options);
  }
}

/** The calls for dead jobs. */
export class Dead extends Resource {
  /** Lists dead jobs. */
  all(query: Omit<JobQuery, 'state' | 'order'> = {}, options?: CallOptions): List<JobAnswer> {
    return this.list('/v1/dead', query, options);
  }

  /** Groups dead jobs by queue, kind and error. */
  groups(query: ListOptions & { queue?: string } = {}, options?: CallOptions): List<DeadGroupAnswer> {
    return this.list('/v1/dead/groups', query, options);
  }

  /** Retries dead jobs. */
  retry(selection: SelectionBody, options?: CallOptions): Promise<ActedAnswer> {
    return this.postJson('/v1/dead/retry', selection, options);
  }

  /** Discards dead jobs. */
  discard(selection: SelectionBody, options?: CallOptions): Promise<ActedAnswer> {
    return this.postJson('/v1/dead/discard', selection, options);
  }

  /** Moves dead jobs to another queue and retries them there. */
  move(selection: MoveManyBody, options?: CallOptions): Promise<ActedAnswer> {
    return this.postJson('/v1/dead/move', selection, options);
  }
}

function at(id: string): string {
  return `/v1/jobs/${segment(id)}`;
}
