import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { createOpenAI } from '@ai-sdk/openai';
import { HumanMessage } from '@langchain/core/messages';
import { tool } from '@langchain/core/tools';
import { ChatOpenAI } from '@langchain/openai';
import { APICallError, generateText, streamText, wrapLanguageModel } from 'ai';
import { z } from 'zod';
import { ArgumentError, RefusedError } from '../src/index.js';
import { bursarMiddleware, type MeterOptions, meterChatModel, openaiFetch, refusalOf, UnboundedCallError } from '../src/models/index.js';
import { balance, budget, options, provider, settled, settledAs, withServers } from './metered.js';
import { answerCost } from './provider.js';

const GPT = 'gpt-5-mini';
const TEXT = 'The harbour is quiet at dawn.';

withServers();

describe('the Vercel AI SDK', () => {
  const model = (more: Partial<MeterOptions> = {}) => {
    const openai = createOpenAI({ apiKey: 'k', baseURL: `${provider.url}/v1` });
    return wrapLanguageModel({ model: openai.chat(GPT), middleware: bursarMiddleware(options(more)) });
  };

  test('generateText is held and settled with its usage', async () => {
    const { text } = await generateText({ model: model(), prompt: 'Describe a harbour.' });
    assert.equal(text, TEXT);
    assert.equal((await settledAs('usage')).cost, answerCost(GPT));
    assert.equal(provider.calls[0]?.body.max_completion_tokens ?? provider.calls[0]?.body.max_tokens, 4_096, 'a maximum is sent');
  });

  test('streamText is settled at its end', async () => {
    const { textStream } = streamText({ model: model(), prompt: 'Describe a harbour.' });
    let text = '';
    for await (const part of textStream) text += part;
    assert.equal(text, TEXT);
    assert.equal((await settledAs('usage')).cost, answerCost(GPT));
  });

  test('a stream whose reader aborts is charged its bound', async () => {
    const abort = new AbortController();
    const { textStream } = streamText({ model: model(), prompt: 'Describe a harbour.', abortSignal: abort.signal, onError: () => undefined });
    for await (const _ of textStream) {
      abort.abort();
      break;
    }
    const call = await settledAs('unfinished');
    assert.equal(call.cost, call.bound);
  });

  test('a stream that is cut is charged its bound', async () => {
    provider.faults = ['cut'];
    const { textStream } = streamText({ model: model(), prompt: 'Describe a harbour.', onError: () => undefined });
    try {
      for await (const _ of textStream) {
        // Reads until the connection breaks.
      }
    } catch {
      // Versions of the package differ in whether they report it here.
    }
    await settledAs('unfinished');
  });

  test('every retry is held, and errors of the provider cost nothing', async () => {
    provider.faults = [429, 500, undefined];
    await generateText({ model: model(), prompt: 'Describe a harbour.' });
    await settledAs('released', 'released', 'usage');
    settled.length = 0;
    const before = await balance();
    provider.faults = [500];
    await assert.rejects(generateText({ model: model(), prompt: 'x', maxRetries: 0 }), APICallError);
    assert.deepEqual(await balance(), before);
  });

  test('a refusal is thrown as it is, before anything is sent', async () => {
    await budget(100);
    await assert.rejects(generateText({ model: model(), prompt: 'Describe a harbour.' }), RefusedError);
    const errors: unknown[] = [];
    const { textStream } = streamText({ model: model(), prompt: 'x', onError: ({ error }) => void errors.push(error) });
    for await (const _ of textStream) assert.fail('no text was expected');
    assert.ok(errors[0] instanceof RefusedError);
    assert.equal(provider.calls.length, 0);
  });

  test('options of the provider are part of the bound, or are refused', async () => {
    await generateText({ model: model(), prompt: 'x', maxOutputTokens: 100 });
    await generateText({ model: model(), prompt: 'x', maxOutputTokens: 100, providerOptions: { openai: { reasoningEffort: 'low' } } });
    await generateText({ model: model(), prompt: 'x', maxOutputTokens: 100, providerOptions: { openai: { maxCompletionTokens: 10_100 } } });
    const [plain, safe, more] = settled.map(({ bound }) => bound);
    assert.equal(plain, safe);
    assert.equal((more ?? 0) - (plain ?? 0), 10_000 * 2, 'the output tokens that the option allows');
    const stored = { openai: { previousResponseId: 'resp_1' } };
    await assert.rejects(generateText({ model: model(), prompt: 'x', providerOptions: stored }), UnboundedCallError);
  });

  test('media has its bound, or is refused', async () => {
    const image = { type: 'file' as const, mediaType: 'image/png', data: 'A'.repeat(100_000) };
    const messages = [{ role: 'user' as const, content: [{ type: 'text' as const, text: 'what?' }, image] }];
    await generateText({ model: model(), messages });
    const call = await settledAs('usage');
    assert.ok(call.bound < 50_000, 'the data of an image is not text');
    const audio = { type: 'file' as const, mediaType: 'audio/wav', data: 'AAAA' };
    await assert.rejects(generateText({ model: model(), messages: [{ role: 'user', content: [audio] }] }), UnboundedCallError);
  });
});

describe('LangChain', () => {
  const chat = (more: object = {}) => {
    return new ChatOpenAI({ model: GPT, apiKey: 'k', maxTokens: 200, maxRetries: 0, configuration: { baseURL: `${provider.url}/v1` }, ...more });
  };
  const model = (more: Partial<MeterOptions> = {}) => meterChatModel(chat(), options(more));
  const ask = [new HumanMessage('Describe a harbour.')];

  test('invoke is held and settled with its usage', async () => {
    assert.equal((await model().invoke(ask)).content, TEXT);
    const call = await settledAs('usage');
    assert.equal(call.cost, answerCost(GPT));
    assert.equal(provider.billed, call.cost);
  });

  test('a stream is settled at its end, and when the reader stops early', async () => {
    let text = '';
    for await (const chunk of await model().stream(ask)) text += chunk.content;
    assert.equal(text, TEXT);
    assert.equal((await settledAs('usage')).cost, answerCost(GPT));
    for await (const chunk of await model().stream(ask)) if (chunk.content === ' harbour') break;
    const call = await settledAs('usage', 'unfinished');
    assert.equal(call.cost, call.bound);
    provider.faults = ['cut'];
    await assert.rejects(async () => {
      for await (const _ of await model().stream(ask)) {
        // Reads until the connection breaks.
      }
    });
    await settledAs('usage', 'unfinished', 'unfinished');
  });

  test('batches and tools are held, and retries by withRetry', async () => {
    const search = tool(() => 'found', { name: 'search', description: 'Finds harbours.', schema: z.object({ name: z.string() }) });
    await model().bindTools([search]).batch([ask, ask, ask]);
    await settledAs('usage', 'usage', 'usage');
    const shape = z.object({ name: z.string() });
    // The provider answers with a text, which is not of this shape.
    await Promise.allSettled([model().withStructuredOutput(shape).invoke(ask)]);
    await Promise.allSettled([model().withStructuredOutput(shape, { method: 'functionCalling' }).invoke(ask)]);
    await model()
      .withConfig({ tags: ['a'] })
      .withConfig({ tags: ['b'] })
      .invoke(ask);
    assert.deepEqual([provider.calls.length, settled.length], [6, 6], 'every call was held');
    settled.length = 0;
    const before = (await balance()).posted ?? 0;
    provider.faults = [500, undefined];
    await model().withRetry({ stopAfterAttempt: 3 }).invoke(ask);
    assert.deepEqual(
      settled.map(({ by }) => by),
      ['released', 'usage'],
    );
    assert.deepEqual(await balance(), { posted: before + answerCost(GPT), held: 0 });
  });

  test('a refusal is thrown as it is, before anything is sent', async () => {
    await budget(100);
    await assert.rejects(model().invoke(ask), RefusedError);
    await assert.rejects(model().stream(ask), RefusedError);
    assert.equal(provider.calls.length, 0);
  });

  test('models that retry by themselves or have no maximum are refused', async () => {
    assert.throws(() => meterChatModel(new ChatOpenAI({ model: GPT, apiKey: 'k' }), options()), ArgumentError);
    const unlimited = meterChatModel(chat({ maxTokens: undefined }), options());
    await assert.rejects(unlimited.invoke(ask), UnboundedCallError);
    const search = meterChatModel(chat({ modelKwargs: { web_search_options: {} } }), options());
    await assert.rejects(search.invoke(ask), UnboundedCallError);
    const more = meterChatModel(chat({ modelKwargs: { max_tokens: 5_000 } }), options());
    await more.invoke(ask);
    await model().invoke(ask);
    assert.ok((settled[0]?.bound ?? 0) > 4 * (settled[1]?.bound ?? 0), 'the largest maximum counts');
    assert.equal(provider.calls.length, 2);
  });

  test('openaiFetch holds every request, so that the model may retry by itself', async () => {
    const configuration = { baseURL: `${provider.url}/v1`, fetch: openaiFetch(options()) };
    const retrying = new ChatOpenAI({ model: GPT, apiKey: 'k', maxRetries: 2, configuration });
    provider.faults = [500, undefined];
    assert.equal((await retrying.invoke(ask)).content, TEXT);
    await settledAs('released', 'usage');
    await budget((await balance()).posted ?? 0);
    const error = await retrying.invoke(ask).catch((error) => error);
    assert.ok(refusalOf(error) instanceof RefusedError, String(error));
    assert.equal(provider.calls.length, 2);
  });
});
