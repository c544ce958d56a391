/** `/v1/queues` and `/v1/schedules`. */

import { type CallOptions, segment } from '../call.js';
import type { EnqueuedAnswer, EventAnswer, QueueAnswer, QueueBody, ScheduleAnswer, ScheduleBody } from '../generated/api.js';
import type { List } from '../page.js';
import { type ListOptions, type PastOptions, type ReasonOptions, Resource } from './resource.js';

/** The period of a queue's figures. */
export interface Figures {
  /** How many minutes the counts cover. */
  minutes?: number;
  /** Whether the counts of each minute are included. */
  series?: boolean;
}

/** The calls for queues. */
export class Queues extends Resource {
  /** Lists queues with their figures. */
  all(query: ListOptions & Figures = {}, options?: CallOptions): List<QueueAnswer> {
    return this.list('/v1/queues', query, options);
  }

  /** Returns a queue with its figures. */
  find(name: string, query: Figures = {}, options?: CallOptions): Promise<QueueAnswer> {
    return this.getJson(queueAt(name), { ...query }, options);
  }

  /** Sets the settings of a queue. */
  define(name: string, queue: QueueBody, options?: CallOptions): Promise<QueueAnswer> {
    return this.putJson(queueAt(name), queue, options);
  }

  /** Pauses a queue: no job is leased. */
  pause(name: string, options?: ReasonOptions): Promise<QueueAnswer> {
    return this.act(`${queueAt(name)}/pause`, options);
  }

  /** Resumes a paused queue. */
  resume(name: string, options?: ReasonOptions): Promise<QueueAnswer> {
    return this.act(`${queueAt(name)}/resume`, options);
  }

  /** Lists the events of a queue, newest first. */
  history(name: string, query?: ListOptions, options?: CallOptions): List<EventAnswer> {
    return this.list(`${queueAt(name)}/history`, query, options);
  }
}

/** The calls for schedules. */
export class Schedules extends Resource {
  /** Lists schedules. */
  all(query: ListOptions = {}, options?: CallOptions): List<ScheduleAnswer> {
    return this.list('/v1/schedules', query, options);
  }

  /** Returns a schedule. */
  find(name: string, options?: PastOptions): Promise<ScheduleAnswer> {
    return this.getOne(scheduleAt(name), options);
  }

  /** Creates or replaces a schedule. */
  define(name: string, schedule: ScheduleBody, options?: CallOptions): Promise<ScheduleAnswer> {
    return this.putJson(scheduleAt(name), schedule, options);
  }

  /** Removes a schedule; its jobs are kept. */
  delete(name: string, options?: ReasonOptions): Promise<void> {
    return this.remove(scheduleAt(name), options);
  }

  /** Pauses a schedule: its ticks are skipped. */
  pause(name: string, options?: ReasonOptions): Promise<ScheduleAnswer> {
    return this.act(`${scheduleAt(name)}/pause`, options);
  }

  /** Resumes a paused schedule. */
  resume(name: string, options?: ReasonOptions): Promise<ScheduleAnswer> {
    return this.act(`${scheduleAt(name)}/resume`, options);
  }

  /** Enqueues a job of the schedule now. */
  run(name: string, options?: ReasonOptions): Promise<EnqueuedAnswer> {
    return this.act(`${scheduleAt(name)}/run`, options);
  }
}

function queueAt(name: string): string {
  return `/v1/queues/${segment(name)}`;
}

function scheduleAt(name: string): string {
  return `/v1/schedules/${segment(name)}`;
}
