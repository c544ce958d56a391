/** The client of a Bursar server. It needs `fetch` and nothing else, so it also runs in Deno, Bun and edge runtimes. */

import { Credentials, Grants, type Keys, Meter, type Workers } from './api/access.js';
import { Blobs, Namespaces } from './api/blobs.js';
import { Budgets } from './api/budgets.js';
import { Commands, type HoldRequest, Holds } from './api/holds.js';
import { Dead, Jobs } from './api/jobs.js';
import { Journal } from './api/journal.js';
import { Queues, Schedules } from './api/queues.js';
import { Work } from './api/work.js';
import { type CallOptions, type CallSettings, call, callSettings } from './call.js';
import { BursarError } from './errors.js';
import { type EventOptions, EventStream } from './events.js';
import type { ChargeBody, VerifyAnswer, WhoAmIAnswer } from './generated/api.js';
import { Hold, type HoldOptions } from './hold.js';
import type { Signer } from './signing.js';

/** Settings of a client. */
export interface BursarOptions {
  /** The URL of the server, such as `http://127.0.0.1:7440`. */
  url: string;
  /** The token that authenticates the caller. */
  token?: string;
  /** The tenant to act for; only an operator may choose one. */
  tenant?: string;
  /** How long a call may take with all its attempts; default: 30 seconds. */
  timeoutMs?: number;
  /** How many attempts a call makes; default: 20. */
  attempts?: number;
  /** Sends requests in place of the global `fetch`. */
  fetch?: typeof fetch;
  /** Signs every request, for a server whose meter requires signatures. An upload is read into memory to be signed. */
  signer?: Signer;
}

/** A client of a Bursar server. */
export class Bursar {
  readonly budgets: Budgets;
  readonly holds: Holds;
  readonly commands: Commands;
  readonly grants: Grants;
  readonly jobs: Jobs;
  readonly dead: Dead;
  readonly queues: Queues;
  readonly schedules: Schedules;
  readonly journal: Journal;
  readonly keys: Keys;
  readonly workers: Workers;
  readonly meter: Meter;
  readonly work: Work;
  readonly blobs: Blobs;
  readonly namespaces: Namespaces;
  private readonly settings: CallSettings;

  constructor(options: BursarOptions) {
    const settings = callSettings(options);
    this.settings = settings;
    this.budgets = new Budgets(settings);
    this.holds = new Holds(settings);
    this.commands = new Commands(settings);
    this.grants = new Grants(settings);
    this.jobs = new Jobs(settings);
    this.dead = new Dead(settings);
    this.queues = new Queues(settings);
    this.schedules = new Schedules(settings);
    this.journal = new Journal(settings);
    this.keys = new Credentials(settings, '/v1/keys');
    this.workers = new Credentials(settings, '/v1/workers');
    this.meter = new Meter(settings);
    this.work = new Work(settings);
    this.blobs = new Blobs(settings);
    this.namespaces = new Namespaces(settings);
  }

  /** Places a hold and returns it as a resource: see `Hold`. */
  hold(scope: string, amount: number, options?: HoldOptions): Promise<Hold>;
  hold(charges: ChargeBody[], options?: HoldOptions): Promise<Hold>;
  async hold(what: string | ChargeBody[], amountOrOptions?: number | HoldOptions, more?: HoldOptions): Promise<Hold> {
    const charges = typeof what === 'string' ? [{ scope: what, amount: amountOrOptions as number }] : what;
    const options = (typeof what === 'string' ? more : (amountOrOptions as HoldOptions | undefined)) ?? {};
    const { ttlMs, onExpiry, reason, ...rest } = options;
    const body: HoldRequest = { charges };
    if (ttlMs !== undefined) body.ttl_ms = ttlMs;
    if (onExpiry !== undefined) body.on_expiry = onExpiry;
    if (reason !== undefined) body.context = { reason };
    const answer = await this.holds.place(body, rest);
    if (!answer.hold) throw new BursarError('the server placed no hold');
    return new Hold(this.holds, answer.hold);
  }

  /** Subscribes to channels: `job:{id}`, `queue:{name}`, `budget:{scope}`, `journal`. Iterating connects. */
  events(channels: string | string[], options?: EventOptions): EventStream {
    return new EventStream(this.settings, [channels].flat(), options);
  }

  /** Returns who the caller is, and what it may do. */
  whoami(options?: CallOptions): Promise<WhoAmIAnswer> {
    return call(this.settings, { method: 'GET', path: '/v1/whoami' }, options);
  }

  /** Compares every balance with its holds and postings; only for operators. */
  verify(options?: CallOptions): Promise<VerifyAnswer> {
    return call(this.settings, { method: 'GET', path: '/v1/verify' }, options);
  }
}
