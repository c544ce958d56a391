/** The wire format of Anthropic: messages. `anthropic_batches.ts` has its batches. */

import { AnthropicBatches } from './anthropic_batches.js';
import { isObject, type Json, list, number, stringBytes } from './json.js';
import { Measure, serverToolCost, UnboundedCallError } from './measure.js';
import type { Meter, MeterOptions, PartialUsage } from './meter.js';
import { meterFetch, type Plan, type UsageReader, type WireFormat, wrapClient } from './metered_fetch.js';
import type { TokenUsage } from './prices.js';

/** Returns a copy of an Anthropic client whose calls cannot overspend. Calls of the original client are not metered.
 *
 * ```ts
 * const anthropic = wrapAnthropic(new Anthropic(), { bursar, scope: 'agent:7' });
 * ``` */
export function wrapAnthropic<C extends object>(client: C, options: MeterOptions): C {
  return wrapClient(client, ANTHROPIC, options);
}

/** Returns a `fetch` that meters calls in the wire format of Anthropic, for any package that takes one. */
export function anthropicFetch(options: MeterOptions, inner: typeof fetch = (input, init) => globalThis.fetch(input, init)): typeof fetch {
  return meterFetch(ANTHROPIC, options, inner);
}

const ANTHROPIC: WireFormat = {
  wire: anthropicWire,
  batches: (meter) => new AnthropicBatches(meter, anthropicWire, () => new AnthropicUsage()),
};

export function anthropicWire(method: string, path: string, body: unknown, meter: Meter): Plan | undefined {
  if (method !== 'POST' || path.endsWith('/count_tokens') || path.endsWith('/cancel') || path.endsWith('/files')) return undefined;
  if (!path.endsWith('/messages') || !isObject(body) || typeof body.model !== 'string') {
    throw new UnboundedCallError(`calls of ${path} are not metered`);
  }
  if (body.speed === 'fast') throw new UnboundedCallError('the speed `fast` has a price of its own');
  if (body.inference_geo != null && body.inference_geo !== 'global') throw new UnboundedCallError('`inference_geo` has a price of its own');
  for (const field of ['mcp_servers', 'container'] as const) {
    if (body[field] != null) throw new UnboundedCallError(`\`${field}\` adds input of unknown size`);
  }
  const { model } = body;
  const messages = list(body.messages);
  const tools = list(body.tools);
  const measure = new Measure(model, meter.options, meter.priceOf(model).imageTokens);
  measure.text(tools).count(messages.length + tools.length);
  measureContent(measure, body.system);
  for (const message of messages) measureContent(measure, message.content);
  const most = typeof body.max_tokens === 'number' ? body.max_tokens : meter.maxTokens;
  return {
    model,
    inputTokens: measure.tokens(),
    outputTokens: most,
    limited: typeof body.max_tokens === 'number',
    extra: serverToolCost(tools.map((tool) => String(tool.type ?? 'custom')).filter(runsAtProvider), meter.options),
    body: { ...body, max_tokens: most },
    usage: new AnthropicUsage(),
  };
}

/** Tools that the caller runs. Those of any other type run at Anthropic. */
const CLIENT_TOOLS = ['custom', 'bash_', 'text_editor_', 'computer_', 'memory_'];

function runsAtProvider(type: string): boolean {
  return !CLIENT_TOOLS.some((name) => type === name || (name.endsWith('_') && type.startsWith(name)));
}

/** Content blocks that are text. */
const TEXT = new Set(['text', 'tool_use', 'thinking', 'redacted_thinking', 'search_result', 'server_tool_use']);

function measureContent(measure: Measure, content: unknown): void {
  if (!Array.isArray(content)) {
    measure.text(content);
    return;
  }
  for (const block of content) measureBlock(measure, isObject(block) ? block : { type: 'text', text: block });
}

function measureBlock(measure: Measure, block: Json): void {
  const type = String(block.type);
  if (type === 'image') measure.part('image');
  else if (type === 'document') measureDocument(measure, block);
  else if (type === 'tool_result') {
    const { content, ...rest } = block;
    measure.text(rest);
    measureContent(measure, content);
  } else if (TEXT.has(type) || type.endsWith('_tool_result')) measure.text(block);
  else throw new UnboundedCallError(`the size of a block of the type ${type} is not known`);
}

function measureDocument(measure: Measure, block: Json): void {
  const { source, ...rest } = block;
  measure.text(rest);
  if (isObject(source) && source.type === 'text') measure.text(source);
  else if (isObject(source) && source.type === 'content') measureContent(measure, source.content);
  else measure.part('file');
}

/** Reads the usage of a message. */
class AnthropicUsage implements UsageReader {
  private input: Omit<TokenUsage, 'output'> | undefined;
  private output = 0;
  private ended = false;
  private received = 0;

  answer(body: unknown): void {
    if (!isObject(body) || !isObject(body.usage)) return;
    this.take(body.usage);
    this.ended = this.input !== undefined;
  }

  event(data: unknown): boolean {
    if (!isObject(data)) return true;
    if (data.type === 'message_start' && isObject(data.message) && isObject(data.message.usage)) this.take(data.message.usage);
    if (data.type === 'content_block_delta') this.received += stringBytes(data.delta);
    if (data.type === 'message_delta' && isObject(data.usage)) {
      this.take(data.usage);
      // Its usage is that of the whole message.
      this.ended = this.input !== undefined;
    }
    return true;
  }

  result(): PartialUsage {
    if (this.ended && this.input) return { known: true, usage: { ...this.input, output: this.output } };
    return { known: false, input: this.input, received: Math.max(this.received, this.output) };
  }

  private take(usage: Json): void {
    this.output = number(usage.output_tokens) ?? this.output;
    const input = number(usage.input_tokens);
    if (input === undefined) return;
    const written = number(usage.cache_creation_input_tokens) ?? 0;
    const details = isObject(usage.cache_creation) ? usage.cache_creation : {};
    const cacheWriteLong = Math.min(number(details.ephemeral_1h_input_tokens) ?? 0, written);
    this.input = { input, cachedInput: number(usage.cache_read_input_tokens) ?? 0, cacheWrite: written - cacheWriteLong, cacheWriteLong };
  }
}
