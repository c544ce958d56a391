/** A wrapper for chat models of LangChain. */

import { ArgumentError } from '../errors.js';
import { isObject, type Json, list, number, stringBytes } from './json.js';
import { Measure, UnboundedCallError } from './measure.js';
import { type CallBound, Meter, type MeteredCall, type MeterOptions, type PartialUsage } from './meter.js';

/** What the wrapper uses of a chat model. */
interface ChatModel {
  _generate(messages: Message[], options: Json, runManager?: unknown): Promise<{ generations: { message?: Message }[] }>;
  _streamResponseChunks(messages: Message[], options: Json, runManager?: unknown): AsyncGenerator<{ message?: Message }>;
  _streamChatModelEvents?: unknown;
  invocationParams?(options: Json): Json | undefined;
  withConfig(config: unknown): object;
  caller?: { maxRetries?: number };
}

interface Message {
  content?: unknown;
  usage_metadata?: Json;
  tool_calls?: unknown;
  additional_kwargs?: unknown;
}

/** Returns a copy of a LangChain chat model whose calls cannot overspend. Calls of the original model are not metered.
 *
 * ```ts
 * const model = meterChatModel(new ChatOpenAI({ model: 'gpt-5-mini', maxTokens: 1_000, maxRetries: 0 }), { bursar, scope: 'agent:7' });
 * ```
 *
 * The model must set its maximum of output tokens, and must not retry: use `model.withRetry()`, which holds every attempt. */
export function meterChatModel<M extends object>(model: M, options: MeterOptions): M {
  return metered(model, new Meter(options));
}

function metered<M extends object>(model: M, meter: Meter): M {
  const inner = model as unknown as ChatModel;
  if ((inner.caller?.maxRetries ?? 0) > 0) {
    throw new ArgumentError('the model retries calls by itself, which would not be held: set `maxRetries: 0` and use `withRetry()`');
  }
  const begin = (messages: Message[], asked: Json) => meter.begin(boundOfCall(meter, inner, messages, asked), signalOf(asked));
  const own: Partial<ChatModel> = {
    async _generate(messages, asked, runManager) {
      const call = await begin(messages, asked);
      try {
        const result = await inner._generate(messages, asked, runManager);
        await call.ended(usageOf(result.generations[0]?.message?.usage_metadata, 0));
        return result;
      } catch (error) {
        await callFailed(call, error);
        throw error;
      }
    },
    async *_streamResponseChunks(messages, asked, runManager) {
      const call = await begin(messages, asked);
      let usage: Json | undefined;
      let received = 0;
      try {
        for await (const chunk of inner._streamResponseChunks(messages, asked, runManager)) {
          usage = added(usage, chunk.message?.usage_metadata);
          received += stringBytes(chunk.message?.content);
          yield chunk;
        }
      } catch (error) {
        if (statusOf(error) !== undefined && received === 0) await call.notRun();
        throw error;
      } finally {
        // Also when the reader stops early. A call that was settled above stays as it is.
        await call.ended(usageOf(usage, received));
      }
    },
    // A model may return a new model, which is metered too. `bindTools` and `withStructuredOutput` call this method.
    withConfig(this: object, config) {
      const made = inner.withConfig.call(this, config);
      return '_generate' in made && made !== this ? metered(made, meter) : made;
    },
    // The one of the base class reads `_streamResponseChunks`.
    _streamChatModelEvents: baseMethod(model, '_streamChatModelEvents'),
  };
  return Object.assign(Object.create(model), own);
}

/** Returns a method as the base class has it. */
function baseMethod(model: object, name: string): unknown {
  let found: unknown;
  for (let proto = Object.getPrototypeOf(model); proto; proto = Object.getPrototypeOf(proto)) {
    if (Object.hasOwn(proto, name)) found = proto[name];
  }
  return found;
}

/** Parameters that add input of unknown size, or have a price of their own. */
const UNBOUNDED = ['previous_response_id', 'conversation', 'web_search_options', 'prediction', 'audio', 'mcp_servers', 'container', 'speed'];

function boundOfCall(meter: Meter, model: ChatModel, messages: Message[], asked: Json): CallBound {
  const own = model as unknown as Json;
  const params = model.invocationParams?.(asked) ?? {};
  const name = [params.model, own.model, own.modelName].find((name) => typeof name === 'string') as string | undefined;
  if (!name) throw new UnboundedCallError('the name of the model is not known');
  const limits = [params.max_completion_tokens, params.max_tokens, params.max_output_tokens, own.maxTokens, own.maxOutputTokens];
  // A model may send several of them.
  const most = Math.max(0, ...limits.filter((limit): limit is number => typeof limit === 'number'));
  if (most === 0) throw new UnboundedCallError('the model has no maximum of output tokens; set `maxTokens`');
  for (const field of UNBOUNDED) if (params[field] != null) throw new UnboundedCallError(`it sets \`${field}\``);
  if (params.service_tier === 'priority') throw new UnboundedCallError('the service tier `priority` has a price of its own');
  const choices = number(params.n ?? own.n) ?? 1;
  const tools = list(params.tools ?? asked.tools);
  for (const tool of tools) {
    if (typeof tool.type === 'string' && tool.type !== 'function' && tool.type !== 'custom') {
      throw new UnboundedCallError(`the tool ${tool.type} runs at the provider`);
    }
  }
  const measure = new Measure(name, meter.options, meter.priceOf(name).imageTokens);
  measure.text(tools).text(params.response_format ?? asked.response_format);
  measure.count(messages.length + tools.length);
  for (const message of messages) {
    measure.text(message.tool_calls).text(message.additional_kwargs);
    measureContent(measure, message.content);
  }
  return { model: name, inputTokens: measure.tokens(), outputTokens: most * Math.max(choices, 1) };
}

const TEXT = new Set(['text', 'text-plain', 'reasoning', 'thinking', 'redacted_thinking', 'tool_use', 'tool_call', 'non_standard']);

function measureContent(measure: Measure, content: unknown): void {
  if (!Array.isArray(content)) {
    measure.text(content);
    return;
  }
  for (const part of list(content)) {
    const type = String(part.type);
    if (type === 'image' || type === 'image_url') measure.part('image');
    else if (type === 'audio' || type === 'input_audio') measure.part('audio');
    else if (type === 'file' || type === 'document' || type === 'video') measure.part('file');
    else if (TEXT.has(type)) measure.text(part);
    else throw new UnboundedCallError(`the size of a part of the type ${type} is not known`);
  }
}

function usageOf(usage: Json | undefined, received: number): PartialUsage {
  const input = number(usage?.input_tokens);
  const output = number(usage?.output_tokens);
  if (!usage || input === undefined || output === undefined) return { known: false, received };
  const inputDetails = isObject(usage.input_token_details) ? usage.input_token_details : {};
  const outputDetails = isObject(usage.output_token_details) ? usage.output_token_details : {};
  const cachedInput = Math.min(number(inputDetails.cache_read) ?? 0, input);
  const cacheWrite = Math.min(number(inputDetails.cache_creation) ?? 0, input - cachedInput);
  const reasoning = Math.min(number(outputDetails.reasoning) ?? 0, output);
  return { known: true, usage: { input: input - cachedInput - cacheWrite, cachedInput, cacheWrite, output, reasoning } };
}

/** Adds the usage of a chunk: LangChain spreads it over the chunks of a stream. */
function added(sum: Json | undefined, usage: Json | undefined): Json | undefined {
  if (!usage) return sum;
  if (!sum) return usage;
  const all = { ...sum };
  for (const [name, value] of Object.entries(usage)) {
    const known = all[name];
    if (typeof value === 'number') all[name] = (typeof known === 'number' ? known : 0) + value;
    else if (isObject(value)) all[name] = added(isObject(known) ? known : undefined, value);
  }
  return all;
}

function callFailed(call: MeteredCall, error: unknown): Promise<void> {
  return statusOf(error) !== undefined ? call.notRun() : call.failed(error);
}

/** Returns the status of an error that a provider answered with. */
function statusOf(error: unknown): number | undefined {
  const { status } = (error ?? {}) as { status?: unknown };
  return typeof status === 'number' && status >= 400 ? status : undefined;
}

function signalOf(options: Json): AbortSignal | undefined {
  return options.signal instanceof AbortSignal ? options.signal : undefined;
}
