/** `/v1/holds` and `/v1/commands`. */

import { type CallOptions, segment } from '../call.js';
import type { CommandAnswer, CommandBody, CommitBody, EventAnswer, ExtendedAnswer, HoldAnswer, HoldBody, SettledAnswer } from '../generated/api.js';
import type { List } from '../page.js';
import { type ListOptions, type PastOptions, type ReasonOptions, Resource } from './resource.js';

/** A hold to place, with what happens to its units if it expires. */
export type HoldRequest = HoldBody & {
  /** The units that are charged if the hold expires; absent: an expired hold releases its units. */
  on_expiry?: { charge: number };
};

/** The calls for holds. `bursar.hold` places one as a resource that settles itself. */
export class Holds extends Resource {
  /** Places a hold. The answer contains the hold and what each limit leaves. */
  place(hold: HoldRequest, options?: CallOptions): Promise<CommandAnswer> {
    return this.postJson('/v1/holds', hold, options);
  }

  /** Returns a hold. */
  find(id: string, options?: PastOptions): Promise<HoldAnswer> {
    return this.getOne(at(id), options);
  }

  /** Lists the unsettled holds on a scope, in the order of their expiry. */
  all(scope: string, query: ListOptions & { state?: 'held' | 'expired' } = {}, options?: CallOptions): List<HoldAnswer> {
    return this.list('/v1/holds', { scope, ...query }, options);
  }

  /** Commits a hold: posts the units that were spent and frees the rest. */
  commit(id: string, actual: number | CommitBody, options?: CallOptions): Promise<SettledAnswer> {
    return this.postJson(`${at(id)}/commit`, typeof actual === 'number' ? { actual } : actual, options);
  }

  /** Releases a hold: frees its units. */
  release(id: string, options?: ReasonOptions): Promise<SettledAnswer> {
    return this.act(`${at(id)}/release`, options);
  }

  /** Extends a hold. */
  extend(id: string, byMs: number, options?: CallOptions): Promise<ExtendedAnswer> {
    return this.postJson(`${at(id)}/extend`, { by_ms: byMs }, options);
  }

  /** Lists the events of a hold, newest first. */
  history(id: string, query?: ListOptions, options?: CallOptions): List<EventAnswer> {
    return this.list(`${at(id)}/history`, query, options);
  }
}

/** The calls for commands. */
export class Commands extends Resource {
  /** Submits charges, redemptions and jobs in one transaction. */
  submit(command: CommandBody, options?: CallOptions): Promise<CommandAnswer> {
    return this.postJson('/v1/commands', command, options);
  }

  /** Returns the result of a command. */
  find(id: string, options?: CallOptions): Promise<CommandAnswer> {
    return this.getJson(`/v1/commands/${segment(id)}`, undefined, options);
  }
}

function at(id: string): string {
  return `/v1/holds/${segment(id)}`;
}
