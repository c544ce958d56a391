/** Middleware for the Vercel AI SDK. */

import { isObject, type Json, list, number, stringBytes } from './json.js';
import { Measure, serverToolCost, UnboundedCallError } from './measure.js';
import { type CallBound, Meter, type MeteredCall, type MeterOptions, type PartialUsage } from './meter.js';
import type { TokenUsage } from './prices.js';

/** What the middleware reads of a call. */
interface CallParams {
  prompt: unknown;
  maxOutputTokens?: number | undefined;
  tools?: unknown;
  responseFormat?: unknown;
  providerOptions?: unknown;
  abortSignal?: AbortSignal | undefined;
}

/** The middleware, in the form of the versions 5 and 6 of the AI SDK. */
export interface BursarMiddleware<Version extends 'v2' | 'v3'> {
  specificationVersion: Version;
  middlewareVersion: Version;
  // biome-ignore lint/suspicious/noExplicitAny: the types of the AI SDK differ between its versions, and this package does not depend on it.
  transformParams(options: any): Promise<any>;
  // biome-ignore lint/suspicious/noExplicitAny: as above.
  wrapGenerate(options: any): Promise<any>;
  // biome-ignore lint/suspicious/noExplicitAny: as above.
  wrapStream(options: any): Promise<any>;
}

/** Returns middleware that holds every call of a language model before it is sent.
 *
 * ```ts
 * const model = wrapLanguageModel({ model: openai('gpt-5-mini'), middleware: bursarMiddleware({ bursar, scope: 'agent:7' }) });
 * ```
 *
 * Version 5 of the AI SDK needs `bursarMiddleware(options, 'v2')`. */
export function bursarMiddleware<Version extends 'v2' | 'v3' = 'v3'>(
  options: MeterOptions,
  version: Version = 'v3' as Version,
): BursarMiddleware<Version> {
  const meter = new Meter(options);
  const begin = (model: { modelId: string }, params: CallParams) => meter.begin(boundOfCall(meter, model.modelId, params), params.abortSignal);
  return {
    specificationVersion: version,
    middlewareVersion: version,
    transformParams: async ({ params }) => ({ ...params, maxOutputTokens: params.maxOutputTokens ?? meter.maxTokens }),
    wrapGenerate: async ({ doGenerate, params, model }) => {
      const call = await begin(model, params);
      try {
        const result = await doGenerate();
        await call.ended(usageOf(result.usage, 0));
        return result;
      } catch (error) {
        await callFailed(call, error);
        throw error;
      }
    },
    wrapStream: async ({ doStream, params, model }) => {
      const call = await begin(model, params);
      try {
        const result = await doStream();
        return { ...result, stream: metered(result.stream, call, params.abortSignal) };
      } catch (error) {
        await callFailed(call, error);
        throw error;
      }
    },
  };
}

function boundOfCall(meter: Meter, model: string, params: CallParams): CallBound {
  const messages = list(params.prompt);
  const tools = list(params.tools);
  const measure = new Measure(model, meter.options, meter.priceOf(model).imageTokens);
  measure
    .text(tools)
    .text(params.responseFormat)
    .count(messages.length + tools.length);
  for (const message of messages) measureContent(measure, message.content);
  const options = providerOptions(params.providerOptions);
  const serverTools = tools
    .filter((tool) => tool.type !== 'function')
    .map(
      (tool) =>
        String(tool.id ?? tool.type)
          .split('.')
          .pop() ?? '',
    );
  return {
    model,
    inputTokens: measure.tokens(),
    outputTokens: Math.max(params.maxOutputTokens ?? meter.maxTokens, options.maxTokens) + options.thinkingTokens,
    extra: serverToolCost(serverTools, meter.options),
  };
}

/** Options of providers that change no price and add no tokens beyond the maximum. */
const SAFE_OPTIONS = new Set([
  'cacheControl',
  'disableParallelToolUse',
  'effort',
  'logitBias',
  'metadata',
  'parallelToolCalls',
  'promptCacheKey',
  'promptCacheRetention',
  'reasoningEffort',
  'reasoningSummary',
  'safetyIdentifier',
  'sendReasoning',
  'store',
  'strictJsonSchema',
  'structuredOutputMode',
  'systemMessageMode',
  'textVerbosity',
  'toolStreaming',
  'user',
]);

/** Returns what the options of providers add to the output; refuses those that may add more than that. */
function providerOptions(value: unknown): { maxTokens: number; thinkingTokens: number } {
  const all = isObject(value) ? Object.values(value).filter(isObject) : [];
  let maxTokens = 0;
  let thinkingTokens = 0;
  for (const [name, option] of all.flatMap((options) => Object.entries(options))) {
    if (option === undefined || SAFE_OPTIONS.has(name)) continue;
    if (name === 'maxCompletionTokens') maxTokens = Math.max(maxTokens, number(option) ?? 0);
    // The AI SDK adds this budget to the maximum of output tokens.
    else if (name === 'thinking' && isObject(option)) thinkingTokens += number(option.budgetTokens) ?? 0;
    else throw new UnboundedCallError(`it is not known what the provider option ${name} adds; use \`openaiFetch\` or \`anthropicFetch\``);
  }
  return { maxTokens, thinkingTokens };
}

const TEXT = new Set(['text', 'reasoning', 'tool-call', 'tool-approval-response']);

function measureContent(measure: Measure, content: unknown): void {
  if (!Array.isArray(content)) {
    measure.text(content);
    return;
  }
  for (const part of list(content)) {
    if (part.type === 'file') measure.part(mediaOf(String(part.mediaType)));
    else if (part.type === 'tool-result') measureToolResult(measure, part);
    else if (TEXT.has(String(part.type))) measure.text(part);
    else throw new UnboundedCallError(`the size of a part of the type ${part.type} is not known`);
  }
}

function measureToolResult(measure: Measure, part: Json): void {
  const { output, ...rest } = part;
  measure.text(rest);
  if (!isObject(output) || output.type !== 'content') {
    measure.text(output);
    return;
  }
  for (const item of list(output.value)) {
    if (item.type === 'text') measure.text(item);
    else measure.part(mediaOf(String(item.mediaType)));
  }
}

function mediaOf(mediaType: string): 'image' | 'audio' | 'file' {
  if (mediaType.startsWith('image/')) return 'image';
  return mediaType.startsWith('audio/') ? 'audio' : 'file';
}

/** Reads the usage of an answer, in the form of either version of the AI SDK. */
function usageOf(usage: unknown, received: number): PartialUsage {
  if (!isObject(usage)) return { known: false, received };
  const input = isObject(usage.inputTokens) ? number(usage.inputTokens.total) : number(usage.inputTokens);
  const output = isObject(usage.outputTokens) ? number(usage.outputTokens.total) : number(usage.outputTokens);
  if (input === undefined || output === undefined) return { known: false, received };
  const details = isObject(usage.inputTokens) ? usage.inputTokens : { cacheRead: usage.cachedInputTokens };
  const cachedInput = Math.min(number(details.cacheRead) ?? 0, input);
  const cacheWrite = Math.min(number(details.cacheWrite) ?? 0, input - cachedInput);
  const reasoning = number(isObject(usage.outputTokens) ? usage.outputTokens.reasoning : usage.reasoningTokens) ?? 0;
  const tokens: TokenUsage = { input: input - cachedInput - cacheWrite, cachedInput, cacheWrite, output, reasoning: Math.min(reasoning, output) };
  return { known: true, usage: tokens };
}

/** Settles a call that failed. An error with a status is an answer of the provider, which does not bill it. */
function callFailed(call: MeteredCall, error: unknown): Promise<void> {
  const { statusCode } = error as { statusCode?: unknown };
  return typeof statusCode === 'number' && statusCode >= 400 ? call.notRun() : call.failed(error);
}

/** Returns a stream that settles its call when it ends, also if the reader stops early. */
function metered(source: ReadableStream<Json>, call: MeteredCall, signal: AbortSignal | undefined): ReadableStream<Json> {
  const reader = source.getReader();
  let usage: unknown;
  let received = 0;
  const ended = () => call.ended(usageOf(usage, received));
  // A caller that aborts may never read the stream again.
  signal?.addEventListener('abort', () => void ended(), { once: true });
  return new ReadableStream<Json>(
    {
      async pull(controller) {
        try {
          const { done, value } = await reader.read();
          if (done) {
            await ended();
            controller.close();
            return;
          }
          if (value.type === 'finish') usage = value.usage;
          else received += stringBytes(value.delta);
          controller.enqueue(value);
        } catch (error) {
          await ended();
          controller.error(error);
        }
      },
      async cancel(reason) {
        await reader.cancel(reason).catch(() => undefined);
        await ended();
      },
    },
    { highWaterMark: 0 },
  );
}
