/** `/v1/journal`. */

import type { CallOptions } from '../call.js';
import type { EventAnswer } from '../generated/api.js';
import type { List } from '../page.js';
import { Resource } from './resource.js';

/** Which events a list has. */
export interface JournalQuery {
  /** Only events after this position. */
  after?: number;
  cursor?: number;
  limit?: number;
  /** Only events of this kind, such as `job.succeeded`; `job` selects all kinds that begin with `job.`. */
  kind?: string;
  /** Only events of one resource: `job:job_…`, an id such as `hold_…`, or `scope:room:sales`. */
  stream?: string;
  from?: string;
  to?: string;
  order?: 'oldest' | 'newest';
}

/** The calls for the journal. */
export class Journal extends Resource {
  /** Lists the events of the journal in commit order. */
  all(query: JournalQuery = {}, options?: CallOptions): List<EventAnswer, number> {
    return this.list<EventAnswer, number>('/v1/journal', query, options);
  }
}
