/** What models cost, in micro-dollars for a million tokens. */

import { BursarError } from '../errors.js';
import table from '../generated/prices.js';

/** The price of a model, in micro-dollars for a million tokens. */
export interface Price {
  /** Input tokens that are not read from a cache. */
  input: number;
  /** Input tokens that are read from a cache; default: `input`. */
  cachedInput?: number;
  /** Input tokens that are written to a cache; default: `input`. */
  cacheWrite?: number;
  /** Input tokens that are written to a cache for a long time; default: `cacheWrite`. */
  cacheWriteLong?: number;
  /** Output tokens. */
  output: number;
  /** Output tokens of reasoning; default: `output`. */
  reasoning?: number;
  /** The most input tokens that one image costs; default: 16,384. */
  imageTokens?: number;
  /** What a token of a batch costs, as a fraction of its price; default: 1. */
  batch?: number;
  /** The price of a request with more input tokens than `tokens`. */
  long?: { tokens: number; input: number; cachedInput?: number; cacheWrite?: number; cacheWriteLong?: number; output: number };
}

/** A price as the files of all SDKs of Bursar have it. */
export interface FilePrice {
  input: number;
  cached_input?: number;
  cache_write?: number;
  cache_write_1h?: number;
  output: number;
  reasoning?: number;
  image_tokens?: number;
  batch?: number;
  long?: { tokens: number } & Omit<FilePrice, 'reasoning' | 'image_tokens' | 'batch' | 'long'>;
}

/** A table of prices, such as the JSON of a file. */
export interface PriceTable {
  /** When the prices were published. */
  version: string;
  models: Record<string, Price | FilePrice>;
}

/** A table, or a function that returns the price of a model. */
export type Prices = PriceTable | ((model: string) => Price | undefined);

/** The list prices of this version of the package. Prices change: pass your own as `prices` if a provider has changed them. */
export const PRICES: PriceTable = {
  version: table.version,
  models: Object.fromEntries(Object.entries<FilePrice>(table.models).map(([name, price]) => [name, fromFile(price)])),
};

/** The tokens of a call, by price. */
export interface TokenUsage {
  input: number;
  cachedInput?: number;
  cacheWrite?: number;
  cacheWriteLong?: number;
  /** All output tokens, with those of reasoning. */
  output: number;
  reasoning?: number;
}

/** The price of a model is not known, so the cost of a call has no bound. Nothing was sent. */
export class UnknownPriceError extends BursarError {
  override name = 'UnknownPriceError';

  constructor(readonly model: string) {
    super(`there is no price for the model ${model}; nothing was sent; pass it in \`prices\`, or set \`fallbackPrice\``);
  }
}

/** Returns the price of a model. A name with a date at its end, such as `gpt-4o-2024-08-06`, has the price of the name without it. */
export function priceOf(model: string, prices: Prices = PRICES, fallback?: Price): Price {
  const find = typeof prices === 'function' ? prices : (name: string) => (Object.hasOwn(prices.models, name) ? prices.models[name] : undefined);
  const undated = model.replace(/-(\d{4}-\d{2}-\d{2}|\d{8}|latest)$/, '');
  const price = find(model) ?? find(undated) ?? fallback;
  if (!price) throw new UnknownPriceError(model);
  return fromFile(price);
}

/** Returns a price with the names of this package. */
function fromFile(price: Price | FilePrice): Price {
  const { image_tokens, long, ...rates } = price as Omit<Price, 'long'> & FilePrice;
  const own: Price = renamed(rates);
  if (image_tokens !== undefined) own.imageTokens = image_tokens;
  if (long !== undefined) own.long = renamed(long);
  return own;
}

function renamed<T extends object>(rates: T & Partial<FilePrice>): Omit<T, 'cached_input' | 'cache_write' | 'cache_write_1h'> {
  const { cached_input, cache_write, cache_write_1h, ...rest } = rates;
  return {
    ...rest,
    ...(cached_input !== undefined && { cachedInput: cached_input }),
    ...(cache_write !== undefined && { cacheWrite: cache_write }),
    ...(cache_write_1h !== undefined && { cacheWriteLong: cache_write_1h }),
  };
}

/** Returns the cost of a call in micro-dollars, rounded up. */
export function costOf(price: Price, usage: TokenUsage): number {
  return microDollars(exactCost(price, usage));
}

/** Returns the most that a call can cost: every input token at its highest price, every output token at its highest price. */
export function boundOf(price: Price, inputTokens: number, outputTokens: number): number {
  return microDollars(exactBound(price, inputTokens, outputTokens));
}

/** Rounds millionths of a micro-dollar up to micro-dollars. A sum of many costs is rounded once. */
export function microDollars(millionths: number): number {
  return Math.ceil(millionths / 1_000_000);
}

/** Returns `costOf` in millionths of a micro-dollar. */
export function exactCost(price: Price, usage: TokenUsage): number {
  const { cachedInput = 0, cacheWrite = 0, cacheWriteLong = 0, reasoning = 0 } = usage;
  const total = usage.input + cachedInput + cacheWrite + cacheWriteLong;
  const rates = price.long && total > price.long.tokens ? price.long : price;
  const outputReasoning = 'reasoning' in rates ? (rates.reasoning ?? rates.output) : rates.output;
  const writeRate = rates.cacheWrite ?? rates.input;
  return (
    usage.input * rates.input +
    cachedInput * (rates.cachedInput ?? rates.input) +
    cacheWrite * writeRate +
    cacheWriteLong * (rates.cacheWriteLong ?? writeRate) +
    (usage.output - reasoning) * rates.output +
    reasoning * outputReasoning
  );
}

/** Returns `boundOf` in millionths of a micro-dollar. */
export function exactBound(price: Price, inputTokens: number, outputTokens: number): number {
  const bound = (rates: Omit<Price, 'long'>) => {
    const input = Math.max(rates.input, rates.cachedInput ?? 0, rates.cacheWrite ?? 0, rates.cacheWriteLong ?? 0);
    return inputTokens * input + outputTokens * Math.max(rates.output, rates.reasoning ?? 0);
  };
  const long = price.long && inputTokens > price.long.tokens ? bound(price.long) : 0;
  return Math.max(bound(price), long);
}
