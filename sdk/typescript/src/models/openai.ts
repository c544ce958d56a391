/** The wire format of OpenAI: chat completions, responses and embeddings. `openai_batches.ts` has its batches. */

import { isObject, type Json, list, number, stringBytes } from './json.js';
import { Measure, type Media, serverToolCost, UnboundedCallError, utf8Length } from './measure.js';
import type { Meter, MeterOptions, PartialUsage } from './meter.js';
import { meterFetch, type Plan, type UsageReader, type WireFormat, wrapClient } from './metered_fetch.js';
import { OpenAIBatches } from './openai_batches.js';
import type { TokenUsage } from './prices.js';

/** Returns a copy of an OpenAI client whose calls cannot overspend. Calls of the original client are not metered.
 *
 * ```ts
 * const openai = wrapOpenAI(new OpenAI(), { bursar, scope: 'agent:7' });
 * ``` */
export function wrapOpenAI<C extends object>(client: C, options: MeterOptions): C {
  return wrapClient(client, OPENAI, options);
}

/** Returns a `fetch` that meters calls in the wire format of OpenAI, for any package that takes one. */
export function openaiFetch(options: MeterOptions, inner: typeof fetch = (input, init) => globalThis.fetch(input, init)): typeof fetch {
  return meterFetch(OPENAI, options, inner);
}

const OPENAI: WireFormat = {
  wire: openaiWire,
  batches: (meter) => new OpenAIBatches(meter, openaiWire, () => new OpenAIUsage(true)),
};

export function openaiWire(method: string, path: string, body: unknown, meter: Meter): Plan | undefined {
  if (method !== 'POST') return undefined;
  if (path.endsWith('/moderations') || path.endsWith('/cancel') || path.endsWith('/input_tokens') || uploadsFile(path)) return undefined;
  if (!isObject(body) || typeof body.model !== 'string') throw new UnboundedCallError(`calls of ${path} are not metered`);
  if (body.service_tier === 'priority') throw new UnboundedCallError('the service tier `priority` has a price of its own');
  if (path.endsWith('/chat/completions')) return chatPlan(body, body.model, meter);
  if (path.endsWith('/responses')) return responsesPlan(body, body.model, meter);
  if (path.endsWith('/embeddings')) return embeddingsPlan(body, body.model, meter);
  throw new UnboundedCallError(`calls of ${path} are not metered`);
}

/** Whether a request uploads a file, which costs nothing. Files of a vector store or a container do. */
function uploadsFile(path: string): boolean {
  return path.endsWith('/files') && !/\/(vector_stores|containers)\//.test(path);
}

function chatPlan(body: Json, model: string, meter: Meter): Plan {
  if (Array.isArray(body.modalities) && body.modalities.some((kind) => kind !== 'text')) throw new UnboundedCallError('it asks for audio');
  const messages = list(body.messages);
  const tools = list(body.tools);
  const serverTools = tools.map((tool) => String(tool.type)).filter((type) => type !== 'function' && type !== 'custom');
  if (body.web_search_options || /-search-/.test(model)) serverTools.push('web_search');
  const asked = body.max_completion_tokens ?? body.max_tokens;
  const most = typeof asked === 'number' ? asked : meter.maxTokens;
  const choices = typeof body.n === 'number' ? body.n : 1;
  // Tokens of a prediction that was wrong are billed as output.
  const predicted = body.prediction ? utf8Length(JSON.stringify(body.prediction)) : 0;
  const measure = new Measure(model, meter.options, meter.priceOf(model).imageTokens);
  measure.text(tools).text(body.functions).text(body.response_format);
  measure.count(messages.length + tools.length);
  for (const message of messages) measureMessage(measure, message);
  const stream = body.stream === true;
  const shown = isObject(body.stream_options) && body.stream_options.include_usage === true;
  const sent: Json = { ...body };
  if (typeof asked !== 'number') sent.max_completion_tokens = most;
  if (stream) sent.stream_options = { ...(isObject(body.stream_options) ? body.stream_options : {}), include_usage: true };
  return {
    model,
    inputTokens: measure.tokens(),
    outputTokens: most * choices + predicted,
    limited: typeof asked === 'number',
    extra: serverToolCost(serverTools, meter.options),
    body: sent,
    usage: new OpenAIUsage(shown),
  };
}

function responsesPlan(body: Json, model: string, meter: Meter): Plan {
  for (const field of ['previous_response_id', 'conversation', 'prompt'] as const) {
    if (body[field] != null) throw new UnboundedCallError(`\`${field}\` refers to input of unknown size`);
  }
  if (body.background === true) throw new UnboundedCallError('it runs in the background');
  const input = Array.isArray(body.input) ? list(body.input) : [{ role: 'user', content: body.input }];
  const tools = list(body.tools);
  const serverTools = tools.map((tool) => String(tool.type)).filter((type) => type !== 'function' && type !== 'custom');
  const most = typeof body.max_output_tokens === 'number' ? body.max_output_tokens : meter.maxTokens;
  const measure = new Measure(model, meter.options, meter.priceOf(model).imageTokens);
  measure.text(tools).text(body.instructions).text(body.text);
  measure.count(input.length + tools.length);
  for (const item of input) measureItem(measure, item);
  return {
    model,
    inputTokens: measure.tokens(),
    outputTokens: most,
    limited: typeof body.max_output_tokens === 'number',
    extra: serverToolCost(serverTools, meter.options),
    body: { ...body, max_output_tokens: most },
    usage: new OpenAIUsage(true),
  };
}

function embeddingsPlan(body: Json, model: string, meter: Meter): Plan {
  const measure = new Measure(model, meter.options, undefined).text(body.input).count(Array.isArray(body.input) ? body.input.length : 1);
  return { model, inputTokens: measure.tokens(), outputTokens: 0, limited: true, body, usage: new OpenAIUsage(true) };
}

/** The content parts of messages, and what they are. */
const PARTS: Record<string, 'text' | Media> = {
  text: 'text',
  refusal: 'text',
  input_text: 'text',
  output_text: 'text',
  image_url: 'image',
  input_image: 'image',
  input_audio: 'audio',
  file: 'file',
  input_file: 'file',
};

/** Items of a response's input that are text. */
const ITEMS = new Set(['function_call', 'custom_tool_call', 'reasoning']);

function measureMessage(measure: Measure, message: Json): void {
  if (message.audio != null) throw new UnboundedCallError('it refers to audio of an earlier answer');
  const { content, ...rest } = message;
  measure.text(rest);
  measureContent(measure, content);
}

function measureItem(measure: Measure, item: Json): void {
  const { type = 'message' } = item;
  if (type === 'message') measureMessage(measure, item);
  else if (type === 'function_call_output' || type === 'custom_tool_call_output') {
    const { output, ...rest } = item;
    measure.text(rest);
    measureContent(measure, output);
  } else if (ITEMS.has(String(type))) measure.text(item);
  else throw new UnboundedCallError(`the size of an item of the type ${type} is not known`);
}

function measureContent(measure: Measure, content: unknown): void {
  if (!Array.isArray(content)) {
    measure.text(content);
    return;
  }
  for (const part of content) {
    const kind = isObject(part) ? PARTS[String(part.type)] : 'text';
    if (!kind) throw new UnboundedCallError(`the size of a part of the type ${part.type} is not known`);
    if (kind === 'text') measure.text(part);
    else measure.part(kind);
  }
}

/** Reads the usage of chat completions, responses and embeddings. */
class OpenAIUsage implements UsageReader {
  private usage: TokenUsage | undefined;
  private received = 0;

  /** @param shown Whether the caller asked for the last chunk, which has the usage and no choice. */
  constructor(private readonly shown: boolean) {}

  answer(body: unknown): void {
    if (isObject(body)) this.take(body.usage);
  }

  event(data: unknown): boolean {
    if (!isObject(data)) return true;
    if (isObject(data.response)) this.take(data.response.usage);
    else if (typeof data.delta === 'string') this.received += utf8Length(data.delta);
    const choices = Array.isArray(data.choices) ? data.choices : undefined;
    if (choices) this.received += stringBytes(choices.map((choice) => choice?.delta));
    this.take(data.usage);
    return this.shown || !(choices?.length === 0 && isObject(data.usage));
  }

  result(): PartialUsage {
    return this.usage ? { known: true, usage: this.usage } : { known: false, received: this.received };
  }

  private take(usage: unknown): void {
    if (!isObject(usage)) return;
    const input = number(usage.prompt_tokens ?? usage.input_tokens);
    if (input === undefined) return;
    const output = number(usage.completion_tokens ?? usage.output_tokens) ?? 0;
    const inputDetails = usage.prompt_tokens_details ?? usage.input_tokens_details;
    const outputDetails = usage.completion_tokens_details ?? usage.output_tokens_details;
    const cachedInput = Math.min(number(isObject(inputDetails) ? inputDetails.cached_tokens : undefined) ?? 0, input);
    const reasoning = Math.min(number(isObject(outputDetails) ? outputDetails.reasoning_tokens : undefined) ?? 0, output);
    this.usage = { input: input - cachedInput, cachedInput, output, reasoning };
  }
}
