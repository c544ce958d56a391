/** Holds the most that a call can cost before it is sent, and commits the real cost after it. */

import type { Bursar } from '../client.js';
import { ArgumentError, RefusedError } from '../errors.js';
import type { Hold } from '../hold.js';
import type { JobContext } from '../worker/context.js';
import type { BatchHolds } from './batches.js';
import type { Bounds } from './measure.js';
import { boundOf, costOf, type Price, type Prices, priceOf, type TokenUsage } from './prices.js';

/** How long a hold lives. A call that takes longer is charged its bound when the hold expires, and the commit corrects it. */
const TTL_MS = 15 * 60_000;
/** The output tokens of a call that sets no maximum. */
const MAX_TOKENS = 4_096;

/** Who pays for calls: a scope, or the job of a worker. */
export type Payer =
  /** Each call holds units on the scope, or on each of several scopes. */
  | { bursar: Bursar; scope: string | string[]; ctx?: undefined }
  /** The hold of the job pays. The units that it holds, or `cap` of them if that is less, are the limit of all calls of the attempt. `scope` names
   * the charges of the hold that pay; default: its only charge. */
  | { ctx: JobContext; scope?: string | string[]; cap?: number; bursar?: undefined };

/** Options of every wrapper. */
export type MeterOptions = Payer &
  Bounds & {
    /** What models cost; default: `PRICES`. */
    prices?: Prices;
    /** The price of a model that `prices` does not have; default: the call is refused. */
    fallbackPrice?: Price;
    /** The most output tokens of a call that does not set its own maximum; default: 4096. It is sent to the provider. */
    maxTokens?: number;
    /** What a call costs that was sent and ended without its usage, because the reader stopped or the connection broke. `bound`, the default:
     * what was held, because the provider may go on and bill for tokens that were never read. `received`: the input, and the output that arrived. */
    unfinished?: 'bound' | 'received';
    /** The time to live of a hold; default: 15 minutes. */
    ttlMs?: number;
    /** The time to live of the hold of a batch; default: 26 hours. The `ttl_max` of a budget, by default one hour, lowers it. */
    batchTtlMs?: number;
    /** Remembers the holds of Anthropic's batches; default: the memory of this process. Pass your own if another process reads the results. */
    batchHolds?: BatchHolds;
    /** Is told of every settled call. */
    onSettled?: (call: SettledCall) => void;
    /** Is told if settling failed. The hold then expires, and its bound is charged. Default: `console.warn`. */
    onError?: (error: unknown) => void;
  };

/** A call or a batch that was settled. */
export interface SettledCall {
  /** The model; `batch` for a batch of several models. */
  model: string;
  /** The units that were held. */
  bound: number;
  /** The units that were charged. */
  cost: number;
  /** `usage`: by the usage in the answer; `unfinished`: without it; `released`: the provider did not run it. */
  by: 'usage' | 'unfinished' | 'released';
}

/** A call to be held: the most tokens that it can have. */
export interface CallBound {
  model: string;
  inputTokens: number;
  outputTokens: number;
  /** What tools of the provider may cost, in micro-dollars. */
  extra?: number;
}

/** The tokens of a call as far as they are known. */
export type PartialUsage = { known: true; usage: TokenUsage } | { known: false; input?: Omit<TokenUsage, 'output'>; received: number };

/** Units that are set aside for one call. */
interface Ticket {
  commit(cost: number): Promise<unknown>;
  release(): Promise<unknown>;
}

export class Meter {
  readonly maxTokens: number;

  constructor(readonly options: MeterOptions) {
    this.maxTokens = options.maxTokens ?? MAX_TOKENS;
    if (!options.ctx && !(options.bursar && options.scope)) throw new ArgumentError('a wrapper needs `bursar` and `scope`, or `ctx`');
  }

  priceOf(model: string): Price {
    return priceOf(model, this.options.prices, this.options.fallbackPrice);
  }

  /** Holds the most that a call can cost. Throws a `RefusedError` that names the limit if the units are not there. */
  async begin(call: CallBound, signal?: AbortSignal | null): Promise<MeteredCall> {
    const price = this.priceOf(call.model);
    const bound = boundOf(price, call.inputTokens, call.outputTokens) + (call.extra ?? 0);
    signal?.throwIfAborted();
    const ticket = this.options.ctx ? await jobTicket(this.options, bound) : await this.holdTicket(bound);
    const held = new MeteredCall(this, call, price, bound, ticket);
    // Aborting the request for the hold would leave a hold that nothing settles.
    if (signal?.aborted) {
      await held.notRun();
      throw signal.reason;
    }
    return held;
  }

  /** Places a hold of its own. If this process dies, the provider may have run the call: the bound is charged, because the real cost is lost. */
  placeHold(bound: number, ttlMs: number): Promise<Hold> {
    const { bursar, scope } = this.options as Extract<MeterOptions, { bursar: Bursar }>;
    const charges = [scope].flat().map((scope) => ({ scope, amount: bound }));
    return bursar.hold(charges, { ttlMs, onExpiry: { charge: bound } });
  }

  /** Settles units by `write`, and reports it. The answer of the provider is not lost if that fails: the hold expires and charges its bound. */
  async settle(settled: SettledCall, write: () => Promise<unknown>): Promise<void> {
    try {
      await write();
      this.options.onSettled?.(settled);
    } catch (error) {
      this.warn(error);
    }
  }

  /** Reports that settling failed. */
  warn(error: unknown): void {
    const { onError = (error) => console.warn('bursar: settling a model call failed; its hold will expire:', error) } = this.options;
    onError(error);
  }

  private async holdTicket(bound: number): Promise<Ticket> {
    const hold = await this.placeHold(bound, this.options.ttlMs ?? TTL_MS);
    return {
      commit: (cost) => hold.commit(hold.charges.map(({ scope }) => ({ scope, amount: cost }))),
      release: () => hold.release(),
    };
  }
}

/** A call that is held. It is settled once: later calls of its methods have no effect. */
export class MeteredCall {
  private settling: Promise<void> | undefined;

  constructor(
    private readonly meter: Meter,
    private readonly call: CallBound,
    private readonly price: Price,
    readonly bound: number,
    private readonly ticket: Ticket,
  ) {}

  /** Settles the call with its usage, or with what is known of it. */
  ended(usage: PartialUsage): Promise<void> {
    if (usage.known) return this.settle(costOf(this.price, usage.usage) + this.extra, 'usage');
    return this.settle(this.unfinishedCost(usage), 'unfinished');
  }

  /** Releases the units: the provider did not run the call. */
  notRun(): Promise<void> {
    return this.settle(0, 'released');
  }

  /** Settles a call that failed with an error: it was never sent, or it may have run. */
  failed(error: unknown): Promise<void> {
    return wasNeverSent(error) ? this.notRun() : this.ended({ known: false, received: 0 });
  }

  private unfinishedCost({ input, received }: Extract<PartialUsage, { known: false }>): number {
    const mode = this.meter.options.unfinished ?? 'bound';
    const output = mode === 'bound' ? this.call.outputTokens : Math.min(received, this.call.outputTokens);
    if (input) return Math.min(costOf(this.price, { ...input, output }) + this.extra, this.bound);
    return mode === 'bound' ? this.bound : Math.min(boundOf(this.price, this.call.inputTokens, output) + this.extra, this.bound);
  }

  /** Tools of the provider report no price, so their bound is charged. */
  private get extra(): number {
    return this.call.extra ?? 0;
  }

  private settle(cost: number, by: SettledCall['by']): Promise<void> {
    this.settling ??= this.settleOnce(cost, by);
    return this.settling;
  }

  private async settleOnce(cost: number, by: SettledCall['by']): Promise<void> {
    const settled = { model: this.call.model, bound: this.bound, cost, by };
    await this.meter.settle(settled, () => (by === 'released' ? this.ticket.release() : this.ticket.commit(cost)));
  }
}

/** The units that calls of an attempt in flight have set aside, by the scope of the job's hold. */
const RESERVED = new WeakMap<JobContext, Map<string, number>>();

/** Sets units aside of those that the job holds. All calls of an attempt share them, so that they cannot pass the hold together. */
async function jobTicket({ ctx, scope, cap = Number.POSITIVE_INFINITY }: Extract<Payer, { ctx: JobContext }>, bound: number): Promise<Ticket> {
  const charges = await payingCharges(ctx, scope);
  const reserved = RESERVED.get(ctx) ?? new Map<string, number>();
  RESERVED.set(ctx, reserved);
  for (const charge of charges) {
    const limit = Math.min(charge.amount, cap);
    const available = limit - charge.spent() - (reserved.get(charge.scope) ?? 0);
    if (bound > available) throw refusal(charge.scope, limit, available, bound);
  }
  const add = (units: number) => {
    for (const charge of charges) reserved.set(charge.scope, (reserved.get(charge.scope) ?? 0) + units);
  };
  add(bound);
  let open = true;
  const close = (spend: number) => {
    if (!open) return;
    open = false;
    add(-bound);
    for (const charge of charges) ctx.usage(spend, charge.usageScope);
  };
  return { commit: async (cost) => close(cost), release: async () => close(0) };
}

/** A charge of the job's hold that pays for calls. */
interface PayingCharge {
  scope: string;
  amount: number;
  /** The scope to report usage on; `undefined`: the only one of the hold. */
  usageScope: string | undefined;
  spent(): number;
}

async function payingCharges(ctx: JobContext, scope: string | string[] | undefined): Promise<PayingCharge[]> {
  const held = await ctx.held();
  const [only] = held;
  if (!only) throw new ArgumentError('the job has no hold: submit it with a charge and `settle: "job"`, or pass `bursar` and `scope`');
  if (held.length === 1 && (scope === undefined || [scope].flat().every((name) => name === only.scope))) {
    return [{ ...only, usageScope: undefined, spent: () => ctx.spent() + ctx.spent(only.scope) }];
  }
  if (scope === undefined) {
    throw new ArgumentError(`the hold of the job has ${held.length} charges: pass \`scope\`, the one or more of them that pay for model calls`);
  }
  return [scope].flat().map((name) => {
    const charge = held.find((charge) => charge.scope === name);
    if (!charge) throw new ArgumentError(`the hold of the job has no charge on ${name}`);
    return { ...charge, usageScope: name, spent: () => ctx.spent(name) };
  });
}

/** Returns the refusal of a call that the hold of its job does not cover. */
function refusal(scope: string, limit: number, available: number, requested: number): RefusedError {
  const detail = `the hold of the job leaves ${Math.max(available, 0)} of ${limit} units, and the call may cost ${requested}`;
  const violation = {
    kind: 'limit' as const,
    scope,
    limit,
    available: Math.max(available, 0),
    requested,
    possible: requested <= limit,
    window: 'lifetime',
  };
  return new RefusedError({ type: '/problems/refused', title: 'Refused', status: 409, detail, violations: [violation] });
}

const NOT_SENT = new Set(['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN', 'EHOSTUNREACH', 'ENETUNREACH', 'UND_ERR_CONNECT_TIMEOUT']);

/** Whether an error shows that no connection was made. */
export function wasNeverSent(error: unknown): boolean {
  for (let inner = error; inner instanceof Error; inner = inner.cause) {
    const code = (inner as { code?: unknown }).code;
    if (typeof code === 'string' && NOT_SENT.has(code)) return true;
  }
  return false;
}
