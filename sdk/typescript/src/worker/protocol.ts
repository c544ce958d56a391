/** The messages between a worker and its lease thread. */

import type { LeaseBody } from '../generated/api.js';

/** What the thread needs to reach the server. */
export interface ThreadSettings {
  url: string;
  token: string | undefined;
  tenant: string | undefined;
}

/** A lease, as the thread and the worker name it. */
export interface LeaseKey {
  id: string;
  fence: number;
}

/** From the worker to the thread. */
export type ToThread =
  /** Lease jobs; the thread answers with `leased` or `denied`. */
  | { type: 'lease'; ask: LeaseBody }
  /** Leases that have ended or are reported: no more heartbeats. */
  | { type: 'end'; leases: LeaseKey[] }
  /** Lease no more; the thread answers with `drained` after the call in flight. */
  | { type: 'drain' };

/** From the thread to the worker. */
export type FromThread =
  /** The answer of a lease call, as JSON text. */
  | { type: 'leased'; text: string }
  /** The server does not accept the worker. */
  | { type: 'denied'; problem: unknown; message: string }
  /** A lease is lost. */
  | { type: 'lost'; lease: LeaseKey }
  /** The job is cancelled, or its queue is paused. */
  | { type: 'order'; lease: LeaseKey; order: 'cancel' | 'drain' }
  /** A warning for the log. */
  | { type: 'warn'; message: string }
  /** No lease call is in flight, and none will follow. */
  | { type: 'drained' };
