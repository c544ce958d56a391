/** Batches: requests that a provider runs later at a lower price. One hold covers all requests of a batch, and is settled when an answer says that
 * the batch has ended. `openai_batches.ts` and `anthropic_batches.ts` read the requests and answers of the providers. */

import { responseMeta } from '../call.js';
import type { Bursar } from '../client.js';
import { AlreadySettledError, BursarError, InvalidError, NotFoundError } from '../errors.js';
import type { HoldAnswer } from '../generated/api.js';
import type { Hold } from '../hold.js';
import { UnboundedCallError } from './measure.js';
import { type Meter, wasNeverSent } from './meter.js';
import type { Plan } from './metered_fetch.js';
import { exactBound, microDollars } from './prices.js';

/** Both providers end a batch after 24 hours. The rest is for the last poll. */
const BATCH_TTL_MS = 26 * 60 * 60_000;
/** How many batches that need no more attention a wrapper remembers, so that polls cause no calls to Bursar. */
const REMEMBERED_MAX = 10_000;

/** Remembers which hold belongs to which batch, for a provider whose batches have no metadata. A `Map` fits. */
export interface BatchHolds {
  get(batch: string): string | undefined | Promise<string | undefined>;
  set(batch: string, hold: string): unknown;
  delete(batch: string): unknown;
}

/** What a batch that has ended is charged: its real cost, its bound because the cost is not known, or nothing because no request ran. */
export type BatchCharge = { by: 'usage'; cost: number } | { by: 'unfinished' } | { by: 'released' };

/** The sum of the bounds of a batch's requests. */
export class BatchBound {
  private millionths = 0;
  private readonly models = new Set<string>();
  /** Whether a request may be so large that the prices of long requests apply. */
  long = false;

  constructor(private readonly meter: Meter) {}

  /** Adds a request. `what` names it in a refusal. A request without a plan costs nothing. */
  add(what: string, planOf: () => Plan | undefined): Plan | undefined {
    try {
      const plan = planOf();
      if (!plan) return undefined;
      // The usage of a batch does not show what they cost.
      if (plan.extra) throw new UnboundedCallError('tools that run at the provider are not metered in a batch');
      // It would lower the sum.
      if (plan.outputTokens < 0) throw new UnboundedCallError('its maximum of output tokens is negative');
      const price = this.meter.priceOf(plan.model);
      this.millionths += exactBound(price, plan.inputTokens, plan.outputTokens) * (price.batch ?? 1);
      this.long ||= price.long !== undefined && plan.inputTokens > price.long.tokens;
      this.models.add(plan.model);
      return plan;
    } catch (error) {
      throw error instanceof UnboundedCallError ? new UnboundedCallError(`${what}: ${error.what}`) : error;
    }
  }

  /** Returns the bound in micro-dollars, rounded up once. */
  get units(): number {
    return microDollars(this.millionths);
  }

  get model(): string {
    return modelOf(this.models);
  }
}

/** Returns the name that a settled batch is reported with. */
export function modelOf(models: Set<string>): string {
  const [first, ...others] = models;
  return first === undefined || others.length > 0 ? 'batch' : first;
}

/** Holds batches and settles them. */
export class Batches {
  /** Batches that are settled, or that nothing can settle. */
  private readonly done = new Set<string>();
  private readonly settling = new Map<string, Promise<boolean>>();

  constructor(readonly meter: Meter) {}

  /** Refuses batches whose hold would be that of a job. */
  checkPayer(): void {
    if (this.meter.options.ctx) {
      throw new UnboundedCallError('a batch outlives the attempt of a job, so the hold of the job cannot pay for it; pass `bursar` and `scope`');
    }
  }

  /** Holds the bound of a batch that is to be created; returns `undefined` if it costs nothing. */
  async hold(bound: BatchBound, signal: AbortSignal | undefined): Promise<HeldBatch | undefined> {
    signal?.throwIfAborted();
    if (bound.units === 0) return undefined;
    const hold = await this.meter.placeHold(bound.units, this.meter.options.batchTtlMs ?? BATCH_TTL_MS);
    const held = new HeldBatch(this.meter, hold, bound);
    if (signal?.aborted) {
      await held.release();
      throw signal.reason;
    }
    return held;
  }

  /** Whether a batch needs no more attention. */
  isDone(batch: string): boolean {
    return this.done.has(batch);
  }

  /** Reports that the hold of a batch is not known, once for each batch. */
  unknown(batch: string, why: string): void {
    if (this.done.has(batch)) return;
    this.remember(batch);
    this.meter.warn(new BursarError(`the batch ${batch} was not settled: ${why}; if it has a hold, its expiry charges the bound`));
  }

  /** Settles a batch that has ended. If that fails, the next call tries again. Returns whether the batch is settled. */
  settle(batch: string, hold: string, model: string, chargeOf: () => BatchCharge): Promise<boolean> {
    if (this.meter.options.ctx || this.done.has(batch)) return Promise.resolve(true);
    const running = this.settling.get(batch) ?? this.settleNow(batch, hold, model, chargeOf).finally(() => this.settling.delete(batch));
    this.settling.set(batch, running);
    return running;
  }

  private async settleNow(batch: string, id: string, model: string, chargeOf: () => BatchCharge): Promise<boolean> {
    const { bursar } = this.meter.options as { bursar: Bursar };
    let settled = false;
    try {
      const charge = chargeOf();
      const hold = await bursar.holds.find(id);
      // Otherwise another process has settled it.
      if (hold.state === 'held' || hold.state === 'expired') await this.write(bursar, batch, hold, model, charge);
      settled = true;
    } catch (error) {
      if (error instanceof NotFoundError || error instanceof InvalidError) this.unknown(batch, `there is no hold ${id}`);
      else this.meter.warn(error);
    }
    if (settled) this.remember(batch);
    return settled;
  }

  private async write(bursar: Bursar, batch: string, hold: HoldAnswer, model: string, charge: BatchCharge): Promise<void> {
    const bound = Math.max(...hold.charges.map(({ amount }) => amount));
    const cost = charge.by === 'usage' ? charge.cost : charge.by === 'unfinished' ? bound : 0;
    // The keys make several processes settle the batch once. They have the cost, because processes may have different prices.
    const actuals = hold.charges.map(({ scope }) => ({ scope, amount: cost }));
    const commit = () => bursar.holds.commit(hold.id, { actuals }, { idempotencyKey: `batch-${batch}-${cost}` });
    const release = () => bursar.holds.release(hold.id, { idempotencyKey: `batch-${batch}-release` });
    try {
      // A hold that has expired cannot be released. A late commit of nothing takes back what its expiry has charged.
      const answer = await (charge.by === 'released' && hold.state === 'held' ? release() : commit());
      // The answer to another process is replayed.
      if (!responseMeta(answer).replayed) this.meter.options.onSettled?.({ model, bound, cost, by: charge.by });
    } catch (error) {
      if (!(error instanceof AlreadySettledError) || error.state === 'expired') throw error;
    }
  }

  private remember(batch: string): void {
    this.done.add(batch);
    if (this.done.size > REMEMBERED_MAX) this.done.delete(this.done.values().next().value as string);
  }
}

/** A batch whose bound is held, until the provider has created it. */
export class HeldBatch {
  constructor(
    private readonly meter: Meter,
    private readonly hold: Hold,
    private readonly bound: BatchBound,
  ) {}

  get id(): string {
    return this.hold.id;
  }

  /** Releases the hold: the provider has not created the batch. */
  async release(): Promise<void> {
    const settled = { model: this.bound.model, bound: this.bound.units, cost: 0, by: 'released' as const };
    await this.meter.settle(settled, () => this.hold.release());
  }

  /** Releases the hold if the provider has refused the batch. A gateway that answers in place of the provider leaves that open. */
  async answered(response: Response): Promise<void> {
    const { ok, status } = response;
    const byGateway = status === 502 || status === 504 || (status >= 520 && status < 528);
    if (!ok && !byGateway) await this.release();
  }

  /** Releases the hold if the request was never sent. Otherwise the batch may run, and the expiry of the hold charges its bound. */
  async failed(error: unknown): Promise<void> {
    if (wasNeverSent(error)) await this.release();
  }
}

/** Shows the JSON of an answer to `look`, if it is no error, and returns the answer. */
export async function lookAt(response: Response, look: (body: unknown) => Promise<void>): Promise<Response> {
  if (!response.ok) return response;
  const copy = response.clone();
  let body: unknown;
  try {
    body = await copy.json();
  } catch {
    // The caller sees the broken answer too.
    return response;
  }
  await look(body);
  return response;
}
