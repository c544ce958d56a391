/** An upper bound of the input tokens of a request.
 *
 * A token is at least one byte of text, so the UTF-8 bytes of a text bound its tokens. The bytes of the request's JSON, which has the text and
 * more, plus `REQUEST_TOKENS` for each request and `ITEM_TOKENS` for each message and tool, bound what a provider adds around it. Images count
 * with the bound of their model. Anything else is refused unless the caller gives a bound for it. */

import { BursarError } from '../errors.js';

/** Tokens that a provider may add to a request, such as its instructions for tools. */
export const REQUEST_TOKENS = 1_024;
/** Tokens that a provider may add to a message or tool. */
export const ITEM_TOKENS = 16;
/** The most tokens of an image, if the price of its model does not say. */
export const IMAGE_TOKENS = 16_384;

/** The cost of a call has no bound. Nothing was sent. */
export class UnboundedCallError extends BursarError {
  override name = 'UnboundedCallError';

  /** @param what What has no bound. */
  constructor(readonly what: string) {
    super(`the cost of this call has no bound: ${what}; nothing was sent`);
  }
}

/** Counts the tokens of a text. */
export type Tokenizer = (text: string, model: string) => number;

/** Bounds that the caller gives. */
export interface Bounds {
  /** Counts tokens instead of the bytes of the text. It must not count too few. */
  tokenizer?: Tokenizer;
  /** The most tokens of one image, audio clip or file. Only images have a default. */
  partTokens?: { image?: number; audio?: number; file?: number };
  /** The most that the tools of a provider, such as `web_search`, may cost in one request, in micro-dollars, by their type. */
  serverTools?: Record<string, number>;
}

/** A part of a request that is not text. */
export type Media = 'image' | 'audio' | 'file';

/** Collects the parts of a request that the model reads, and bounds their tokens. */
export class Measure {
  private readonly texts: unknown[] = [];
  private media = 0;
  private items = 0;

  /** @param imageTokens The most tokens of an image of the model. */
  constructor(
    private readonly model: string,
    private readonly bounds: Bounds,
    private readonly imageTokens: number | undefined,
  ) {}

  /** Adds text, or JSON that the model reads as text. */
  text(value: unknown): this {
    if (value !== undefined && value !== null) this.texts.push(value);
    return this;
  }

  /** Adds messages or tools, around each of which a provider adds tokens. */
  count(items: number): this {
    this.items += items;
    return this;
  }

  /** Adds an image, an audio clip or a file; refuses one without a bound. */
  part(kind: Media): this {
    const tokens = this.bounds.partTokens?.[kind] ?? (kind === 'image' ? (this.imageTokens ?? IMAGE_TOKENS) : undefined);
    if (tokens === undefined) throw new UnboundedCallError(`it has a part of the kind ${kind}; set \`partTokens.${kind}\``);
    this.media += tokens;
    return this;
  }

  /** Returns the bound. */
  tokens(): number {
    const text = JSON.stringify(this.texts);
    const counted = this.bounds.tokenizer ? this.bounds.tokenizer(text, this.model) : utf8Length(text);
    return counted + this.media + REQUEST_TOKENS + this.items * ITEM_TOKENS;
  }
}

/** Returns the number of bytes of a text in UTF-8. */
export function utf8Length(text: string): number {
  return new TextEncoder().encode(text).length;
}

/** Returns what the tools of a provider may cost, in micro-dollars; refuses one without a bound. */
export function serverToolCost(types: string[], bounds: Bounds): number {
  let cost = 0;
  for (const type of types) {
    const known = Object.entries(bounds.serverTools ?? {}).find(([name]) => type === name || type.startsWith(`${name}_`));
    if (!known) throw new UnboundedCallError(`the tool ${type} runs at the provider and has a price of its own; set \`serverTools\``);
    cost += known[1];
  }
  return cost;
}
