/** The context of a running handler: its progress, its usage and the signal to stop. */

import type { BlobBody, BlobContent, PutOptions } from '../api/blobs.js';
import type { Bursar } from '../client.js';
import { ArgumentError, problemError } from '../errors.js';
import type { BlobAnswer, HeldUnitsAnswer, LeasedAnswer, Usage } from '../generated/api.js';
import { StopError, type StopReason } from './outcome.js';

/** The timeout of a progress report. */
const PROGRESS_MS_MAX = 5_000;
/** The maximum number of scopes that one job may charge. */
const SCOPES_MAX = 1_000;

/** A job that is leased to this worker. */
export type Job<Payload = unknown> = Omit<LeasedAnswer, 'payload'> & { payload: Payload };

/** The progress of a job. It is sent to listeners, and the job keeps the last report. */
export interface Progress {
  /** How much is done, from 0 to 100. */
  percent?: number;
  /** A text for people. */
  message?: string;
  /** JSON for programs. */
  data?: unknown;
  /** JSON that says where the work is: the next attempt gets it as `ctx.checkpoint`. `null` removes the last one; without the field it stays.
   * At most 16 KiB: store larger data as a blob, and its id in the checkpoint. */
  checkpoint?: unknown;
}

/** The blobs of a job. */
export interface JobBlobs {
  /** Stores a blob. The job refers to it when it completes, so that it is kept as long as the job. */
  put(body: BlobBody, options?: PutOptions): Promise<BlobAnswer>;
  /** Reads a blob. */
  get(id: string, options?: { range?: { start: number; end?: number } }): Promise<BlobContent>;
}

const STRENGTH: Record<StopReason, number> = { draining: 0, cancelled: 1, lost: 2 };

/** The context of a running handler.
 *
 * A job runs **at least once**: a worker that crashes, or loses its connection or its lease, may have done the work already when another worker
 * does it again. Make the effects of a handler safe to repeat: pass `ctx.idempotencyKey` to services that accept one. */
export class JobContext {
  /** Aborts when the handler must stop: the lease is lost, the job is cancelled, or the worker drains. Its reason is a `StopError`. */
  readonly signal: AbortSignal;
  /** The client of the worker. */
  readonly bursar: Bursar;
  /** Stores and reads blobs. */
  readonly blobs: JobBlobs;
  private readonly aborter = new AbortController();
  private readonly job: LeasedAnswer;
  private stopReason: StopReason | undefined;
  private usages: Usage[] | undefined;
  private readonly stored = new Set<string>();
  private readonly stopListeners: (() => void)[] = [];

  /** @internal */
  constructor(bursar: Bursar, job: LeasedAnswer) {
    this.bursar = bursar;
    this.job = job;
    this.signal = this.aborter.signal;
    this.blobs = {
      put: async (body, options) => {
        const blob = await bursar.blobs.put(body, { signal: this.signal, ...options });
        this.stored.add(blob.id);
        return blob;
      },
      get: (id, options) => bursar.blobs.get(id, { signal: this.signal, ...options }),
    };
  }

  /** The number of this attempt, counted from 1. */
  get attempt(): number {
    return this.job.attempt;
  }

  /** The job's idempotency key, or its id if it has none. It is the same in every attempt. */
  get idempotencyKey(): string {
    return this.job.idempotency_key ?? this.job.id;
  }

  /** Why the handler must stop; `undefined` if it may go on. */
  get stop(): StopReason | undefined {
    return this.stopReason;
  }

  /** The last checkpoint of the job: the JSON that an earlier attempt reported with its progress. `null` in the first attempt, and if there was
   * none. A handler that begins with it does not repeat the work up to it. */
  get checkpoint(): unknown {
    return this.job.checkpoint ?? null;
  }

  /** Sends progress to listeners and extends the lease. A number is a percentage. The job keeps the last report. A `checkpoint` is stored when the
   * call returns; it fails if the lease is lost. */
  async progress(progress: number | Progress): Promise<void> {
    const { percent, message, data, checkpoint } = typeof progress === 'number' ? { percent: progress } : progress;
    const item = { id: this.job.id, fence: this.job.lease?.fence ?? 0, percent, message, data, checkpoint };
    const { items } = await this.bursar.work.progress([item], { timeoutMs: PROGRESS_MS_MAX, signal: this.signal });
    const answer = items[0];
    if (checkpoint !== undefined && answer && 'problem' in answer) throw problemError(answer.problem);
  }

  /** Emits an event of the application about the job, such as `preview.ready`: listeners to the job and its queue hear it (`job.emitted`), and the
   * journal keeps it. `data` has at most 16 KiB. The token of the worker must have a capability for the event. Fails if the lease is lost. */
  async emit(event: string, data: unknown = null): Promise<void> {
    const body = { fence: this.job.lease?.fence ?? 0, event, data };
    await this.bursar.work.emit(this.job.id, body, { timeoutMs: PROGRESS_MS_MAX, signal: this.signal });
  }

  /** Adds units to what this attempt has spent, on the only scope of the job's hold or on `scope`. A handler that reports no usage has spent the
   * held units if it succeeds, and nothing if it fails. */
  usage(amount: number, scope?: string): void {
    if (!Number.isSafeInteger(amount) || amount < 0) {
      throw new ArgumentError(`usage: ${amount} is not a whole number of units from 0 to 2^53 - 1`);
    }
    this.usages ??= [];
    const known = this.usages.find((usage) => usage.scope === scope);
    if (known) {
      if (!Number.isSafeInteger(known.amount + amount)) throw new ArgumentError('usage: the sum exceeds 2^53 - 1');
      known.amount += amount;
    } else {
      if (this.usages.length >= SCOPES_MAX) throw new ArgumentError(`usage: names more than ${SCOPES_MAX} scopes`);
      this.usages.push(scope === undefined ? { amount } : { scope, amount });
    }
  }

  /** Returns the units that the hold of this job sets aside, by scope; an empty list if it has none. They come with the job. Only a server that does
   * not send them is asked, and a worker token may not read holds. */
  async held(): Promise<HeldUnitsAnswer[]> {
    if (!this.job.hold) return [];
    if (this.job.held) return this.job.held;
    const { charges } = await this.bursar.holds.find(this.job.hold, { signal: this.signal });
    return charges.map(({ scope, amount }) => ({ scope, amount }));
  }

  /** Returns the units that the handler has reported as spent, on the only scope of the hold or on `scope`. */
  spent(scope?: string): number {
    return this.usages?.find((usage) => usage.scope === scope)?.amount ?? 0;
  }

  /** @internal */
  reported(): Usage[] | undefined {
    return this.usages;
  }

  /** Returns the blobs that the handler has stored.
   * @internal */
  storedBlobs(): string[] {
    return [...this.stored];
  }

  /** Tells the handler to stop, unless it already has a reason that is at least as strong.
   * @internal */
  mustStop(reason: StopReason): void {
    if (this.stopReason !== undefined && STRENGTH[this.stopReason] >= STRENGTH[reason]) return;
    this.stopReason = reason;
    if (!this.signal.aborted) {
      this.aborter.abort(new StopError(reason));
      for (const listener of this.stopListeners.splice(0)) listener();
    }
  }

  /** Calls `listener` when the handler must stop. Cheaper than a listener of the signal, and set for every job.
   * @internal */
  onStop(listener: () => void): void {
    if (this.signal.aborted) listener();
    else this.stopListeners.push(listener);
  }
}
