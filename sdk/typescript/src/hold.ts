/** A hold as a resource: it is settled once, and released when its block ends without a commit. */

import type { Holds } from './api/holds.js';
import type { CallOptions } from './call.js';
import { BursarError } from './errors.js';
import type { ActualBody, ChargeAnswer, ExtendedAnswer, PlacedAnswer, SettledAnswer } from './generated/api.js';
import { randomKey } from './random.js';

/** Options of `bursar.hold`. */
export interface HoldOptions extends CallOptions {
  /** The time to live of the hold; default: the budget's setting. */
  ttlMs?: number;
  /** The units that are charged if the hold expires, because this process died; default: an expired hold releases its units. A later commit
   * corrects the charge. */
  onExpiry?: { charge: number };
  /** A reason that the journal records. */
  reason?: string;
}

/** The hold was settled before by this program. */
export class HoldSettledError extends BursarError {
  override name = 'HoldSettledError';
}

/** Units set aside on one or more scopes.
 *
 * ```ts
 * await using hold = await bursar.hold('agent:7', 50_000);
 * const cost = await work();
 * await hold.commit(cost);
 * ```
 *
 * If the block fails, or ends without a commit, the hold is released. */
export class Hold implements AsyncDisposable {
  readonly id: string;
  readonly charges: ChargeAnswer[];
  readonly expiresAt: string | undefined;
  private state: 'held' | 'committing' | 'settled' = 'held';
  private readonly commitKey = randomKey();
  private committing: string | undefined;

  constructor(
    private readonly holds: Holds,
    placed: PlacedAnswer,
  ) {
    if (!placed.id) throw new BursarError('the server placed no hold');
    this.id = placed.id;
    this.charges = placed.charges;
    this.expiresAt = placed.expires_at ?? undefined;
  }

  /** Whether the hold was committed or released by this program. */
  get settled(): boolean {
    return this.state === 'settled';
  }

  /** Commits the hold: posts the units that were spent and frees the rest. If the call fails, it can be repeated with the same amount. The
   * hold is not released by then, because its units are spent. */
  async commit(actual: number | ActualBody[], options?: CallOptions): Promise<SettledAnswer> {
    const body = typeof actual === 'number' ? { actual } : { actuals: actual };
    const asked = JSON.stringify(body);
    if (this.state === 'settled') throw new HoldSettledError(`the hold ${this.id} is settled already`);
    if (this.committing !== undefined && this.committing !== asked) {
      throw new HoldSettledError(`the hold ${this.id} was committed with another amount`);
    }
    this.state = 'committing';
    this.committing = asked;
    // A repeated commit has the same key, so that it takes effect once.
    const settled = await this.holds.commit(this.id, body, { idempotencyKey: this.commitKey, ...options });
    this.state = 'settled';
    return settled;
  }

  /** Releases the hold: frees its units. */
  async release(options?: CallOptions & { reason?: string }): Promise<SettledAnswer> {
    if (this.state !== 'held') throw new HoldSettledError(`the hold ${this.id} is settled already`);
    this.state = 'settled';
    try {
      return await this.holds.release(this.id, options);
    } catch (error) {
      this.state = 'held';
      throw error;
    }
  }

  /** Extends the hold. */
  extend(byMs: number, options?: CallOptions): Promise<ExtendedAnswer> {
    return this.holds.extend(this.id, byMs, options);
  }

  /** Releases the hold, unless it was settled or a commit was tried. */
  async [Symbol.asyncDispose](): Promise<void> {
    if (this.state === 'held') await this.release();
  }
}
