/** What the calls of one noun share. */

import { type CallOptions, type CallSettings, call, type Request } from '../call.js';
import { List, type Page } from '../page.js';

/** Options of a list: where it begins and how many items a page has. */
export interface ListOptions {
  cursor?: string;
  /** The number of items on a page, from 1 to 1000; default: 100. */
  limit?: number;
}

/** Options of a change that the journal can record with a reason. */
export interface ReasonOptions extends CallOptions {
  reason?: string;
}

/** Options of reading one resource. */
export interface PastOptions extends CallOptions {
  /** Return the resource as it was at this moment: a time in RFC 3339 or a `Date`, or a position of the journal. Default: now. */
  at?: string | number | Date;
}

export class Resource {
  constructor(protected readonly settings: CallSettings) {}

  protected getJson<T>(path: string, query?: Request['query'], options?: CallOptions): Promise<T> {
    return call<T>(this.settings, { method: 'GET', path, query }, options);
  }

  /** Reads one resource, as it is now or as it was. */
  protected getOne<T>(path: string, options: PastOptions = {}): Promise<T> {
    const { at, ...rest } = options;
    return this.getJson<T>(path, { at: at instanceof Date ? at.toISOString() : at }, rest);
  }

  protected postJson<T>(path: string, body: unknown, options?: CallOptions): Promise<T> {
    return call<T>(this.settings, { method: 'POST', path, body }, options);
  }

  protected putJson<T>(path: string, body: unknown, options?: CallOptions): Promise<T> {
    return call<T>(this.settings, { method: 'PUT', path, body }, options);
  }

  protected patchJson<T>(path: string, body: unknown, options?: CallOptions): Promise<T> {
    return call<T>(this.settings, { method: 'PATCH', path, body }, options);
  }

  protected remove(path: string, options: ReasonOptions = {}): Promise<void> {
    const { reason, ...rest } = options;
    return call<void>(this.settings, { method: 'DELETE', path, query: { reason } }, rest);
  }

  /** A change whose body has only its reason. */
  protected act<T>(path: string, options: ReasonOptions = {}): Promise<T> {
    const { reason, ...rest } = options;
    return this.postJson<T>(path, reason === undefined ? {} : { reason }, rest);
  }

  protected list<T, C extends string | number = string>(path: string, query: object = {}, options?: CallOptions): List<T, C> {
    return new List<T, C>((cursor) => {
      const from = cursor === undefined ? query : { ...query, after: undefined, cursor };
      return this.getJson<Page<T, C>>(path, from as Request['query'], options);
    });
  }
}
