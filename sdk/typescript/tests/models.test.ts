import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import Anthropic from '@anthropic-ai/sdk';
import OpenAI from 'openai';
import { ArgumentError, createWorker, type JobContext, RefusedError } from '../src/index.js';
import {
  costOf,
  type MeterOptions,
  PRICES,
  priceOf,
  refusalOf,
  UnboundedCallError,
  UnknownPriceError,
  wrapAnthropic,
  wrapOpenAI,
} from '../src/models/index.js';
import { abortedOnceHeld, balance, budget, bursar, lastSettledAs, options, provider, scope, server, settled, withServers } from './metered.js';
import { answerCost, Provider } from './provider.js';
import { eventually, PATIENCE_MS } from './support.js';

const GPT = 'gpt-5-mini';
const CLAUDE = 'claude-sonnet-4-6';
const PROMPT = [{ role: 'user' as const, content: 'Describe a harbour at dawn. grüß 🦀' }];

withServers();

const openai = (more: Partial<MeterOptions> = {}) => wrapOpenAI(new OpenAI({ apiKey: 'k', baseURL: `${provider.url}/v1` }), options(more));
const anthropic = (more: Partial<MeterOptions> = {}) => wrapAnthropic(new Anthropic({ apiKey: 'k', baseURL: provider.url }), options(more));
const ask = { model: GPT, messages: PROMPT };
const askClaude = { model: CLAUDE, max_tokens: 500, messages: PROMPT };

describe('OpenAI', () => {
  test('a call is held and settled with its usage', async () => {
    const answer = await openai().chat.completions.create(ask);
    assert.equal(answer.choices[0]?.message.content, 'The harbour is quiet at dawn.');
    const call = await lastSettledAs('usage');
    assert.equal(call.cost, answerCost(GPT));
    assert.equal(provider.billed, call.cost);
    assert.equal(provider.calls[0]?.body.max_completion_tokens, 4_096, 'a maximum is sent');
  });

  test('the hold is there before the request is sent, and charges its bound if it expires', async () => {
    let open: () => void = () => undefined;
    provider.barrier = new Promise((done) => (open = done));
    const bodies: string[] = [];
    const recording = server.client({
      fetch: (input, init) => {
        if (String(input).endsWith('/v1/holds')) bodies.push(String(init?.body));
        return fetch(input, init);
      },
    });
    const answer = openai({ bursar: recording, maxTokens: 100 } as Partial<MeterOptions>).chat.completions.create(ask);
    await eventually(() => provider.calls.length === 1);
    const { held } = await balance();
    assert.ok(held && held > answerCost(GPT));
    assert.deepEqual(JSON.parse(bodies[0] ?? '{}').on_expiry, { charge: held });
    open();
    await answer;
    await lastSettledAs('usage');
  });

  test('a stream is settled at its end, and its usage is not shown unless it was asked for', async () => {
    for (const include_usage of [false, true]) {
      const stream = await openai().chat.completions.create({
        ...ask,
        stream: true,
        ...(include_usage ? { stream_options: { include_usage } } : {}),
      });
      let text = '';
      let usages = 0;
      for await (const chunk of stream) {
        if (chunk.usage) usages += 1;
        else text += chunk.choices[0]?.delta.content ?? '';
        assert.ok(chunk.usage || chunk.choices.length > 0);
      }
      assert.deepEqual([text, usages], ['The harbour is quiet at dawn.', include_usage ? 1 : 0]);
    }
    await lastSettledAs('usage');
    assert.equal(provider.billed, 2 * answerCost(GPT));
  });

  test('a reader that stops early is charged the bound, or what arrived', async () => {
    const read = async (more: Partial<MeterOptions>) => {
      settled.length = 0;
      await bursar.budgets.credit(scope, { amount: Math.max((await balance()).posted ?? 0, 1), reason: 'again' }).catch(() => undefined);
      for await (const chunk of await openai(more).chat.completions.create({ ...ask, stream: true })) {
        if (chunk.choices[0]?.delta.content === ' harbour') break;
      }
      return eventually(() => settled.at(-1));
    };
    const bound = await read({});
    assert.deepEqual([bound.by, bound.cost], ['unfinished', bound.bound]);
    const received = await read({ unfinished: 'received' });
    assert.equal(received.by, 'unfinished');
    assert.ok(received.cost > 0 && received.cost < received.bound / 2, `${received.cost} of ${received.bound}`);
    assert.equal((await balance()).held, 0);
  });

  test('a stream that is cut is charged its bound', async () => {
    provider.faults = ['cut'];
    const stream = await openai().chat.completions.create({ ...ask, stream: true });
    await assert.rejects(async () => {
      for await (const _ of stream) {
        // Reads until the connection breaks.
      }
    });
    const call = await lastSettledAs('unfinished');
    assert.equal(call.cost, call.bound);
    assert.ok(call.cost >= provider.billed);
  });

  test('an aborted stream is settled', async () => {
    const abort = new AbortController();
    const stream = await openai().chat.completions.create({ ...ask, stream: true }, { signal: abort.signal });
    const reader = stream[Symbol.asyncIterator]();
    await reader.next();
    abort.abort();
    await lastSettledAs('unfinished');
  });

  test('a call that is aborted while it is held is released', async () => {
    const abort = new AbortController();
    const call = openai({ bursar: abortedOnceHeld(abort) } as Partial<MeterOptions>).chat.completions.create(ask, { signal: abort.signal });
    await assert.rejects(call, OpenAI.APIUserAbortError);
    await lastSettledAs('released');
    assert.equal(provider.calls.length, 0);
  });

  test('every retry of the package is held, and errors of the provider cost nothing', async () => {
    provider.faults = [429, 500, undefined];
    await openai().chat.completions.create(ask);
    assert.deepEqual(
      settled.map(({ by }) => by),
      ['released', 'released', 'usage'],
    );
    assert.equal(provider.calls.length, 3);
    await lastSettledAs('usage');
    settled.length = 0;
    provider.faults = [500, 500, 500];
    const before = (await balance()).posted;
    await assert.rejects(openai().chat.completions.create(ask), OpenAI.InternalServerError);
    assert.deepEqual(await balance(), { posted: before, held: 0 });
  });

  test('a connection that breaks may have cost the bound', async () => {
    provider.faults = ['closed', undefined];
    await openai().chat.completions.create(ask);
    assert.deepEqual(
      settled.map(({ by }) => by),
      ['unfinished', 'usage'],
    );
    await lastSettledAs('usage');
  });

  test('a provider that cannot be reached costs nothing', async () => {
    const nowhere = await Provider.start();
    await nowhere.stop();
    const client = wrapOpenAI(new OpenAI({ apiKey: 'k', baseURL: `${nowhere.url}/v1`, maxRetries: 0 }), options());
    await assert.rejects(client.chat.completions.create(ask), OpenAI.APIConnectionError);
    const call = await lastSettledAs('released');
    assert.equal(call.cost, 0);
  });

  test('an answer without usage is charged its bound', async () => {
    provider.faults = ['no usage', 'no usage'];
    await openai().chat.completions.create(ask);
    const call = await lastSettledAs('unfinished');
    assert.equal(call.cost, call.bound);
    for await (const _ of await openai().chat.completions.create({ ...ask, stream: true })) {
      // Reads to the end.
    }
    await lastSettledAs('unfinished');
  });

  test('a refusal names the limit before anything is sent, and is not retried', async () => {
    await budget(100);
    const error = await openai()
      .chat.completions.create(ask)
      .catch((error) => error);
    assert.ok(error instanceof RefusedError, String(error));
    const [violation] = error.violations;
    assert.ok(violation?.kind === 'limit' && violation.scope === scope && violation.limit === 100);
    assert.equal(refusalOf(error), error);
    assert.equal(provider.calls.length, 0);
  });

  test('an unknown model is refused unless there is a fallback price', async () => {
    const model = 'a-new-model';
    await assert.rejects(openai().chat.completions.create({ ...ask, model }), UnknownPriceError);
    assert.equal(provider.calls.length, 0);
    const price = { input: 1_000_000, output: 2_000_000 };
    const priced = openai({ prices: (name) => (name === model ? price : undefined) });
    const original = PRICES.models[model];
    PRICES.models[model] = price;
    await priced.chat.completions.create({ ...ask, model });
    await openai({ fallbackPrice: price, prices: { version: '1', models: {} } }).chat.completions.create({ ...ask, model });
    if (original === undefined) delete PRICES.models[model];
    assert.equal(settled.length, 2);
  });

  test('what has no bound is refused, and a bound admits it', async () => {
    const image = { type: 'image_url' as const, image_url: { url: `data:image/png;base64,${'A'.repeat(300_000)}` } };
    const audio = { type: 'input_audio' as const, input_audio: { data: 'AAAA', format: 'wav' as const } };
    const content = (part: typeof image | typeof audio) => [{ role: 'user' as const, content: [{ type: 'text' as const, text: 'what?' }, part] }];
    await openai().chat.completions.create({ model: GPT, messages: content(image), max_completion_tokens: 10 });
    const withImage = await lastSettledAs('usage');
    assert.ok(withImage.bound < 10_000, 'the data of an image is not text');
    await assert.rejects(openai().chat.completions.create({ model: GPT, messages: content(audio) }), UnboundedCallError);
    await openai({ partTokens: { audio: 1_000 } }).chat.completions.create({ model: GPT, messages: content(audio) });
    const search = { model: GPT, input: 'news?', tools: [{ type: 'web_search' as const }] };
    await assert.rejects(openai().responses.create(search), UnboundedCallError);
    await openai({ serverTools: { web_search: 50_000 } }).responses.create(search);
    assert.ok((settled.at(-1)?.cost ?? 0) >= 50_000);
    await assert.rejects(openai().responses.create({ model: GPT, input: 'x', previous_response_id: 'resp_1' }), UnboundedCallError);
    await assert.rejects(openai().images.generate({ model: 'gpt-image-1', prompt: 'a harbour' }), UnboundedCallError);
  });

  test('responses and embeddings', async () => {
    const answer = await openai().responses.create({ model: GPT, input: 'Describe a harbour.' });
    assert.equal(answer.output_text, 'The harbour is quiet at dawn.');
    assert.equal(provider.calls[0]?.body.max_output_tokens, 4_096);
    await lastSettledAs('usage');
    let text = '';
    for await (const event of await openai().responses.create({ model: GPT, input: 'Describe a harbour.', stream: true })) {
      if (event.type === 'response.output_text.delta') text += event.delta;
    }
    assert.equal(text, 'The harbour is quiet at dawn.');
    await lastSettledAs('usage');
    await openai().embeddings.create({ model: 'text-embedding-3-small', input: ['one', 'two'] });
    await lastSettledAs('usage');
    assert.equal(
      provider.billed,
      settled.reduce((sum, { cost }) => sum + cost, 0),
    );
  });

  test('200 parallel calls under a cap that admits 20: 20 are sent', async () => {
    await openai({ maxTokens: 100 }).chat.completions.create(ask);
    const bound = settled[0]?.bound ?? 0;
    const posted = (await balance()).posted ?? 0;
    await budget(posted + 20 * bound);
    provider.calls.length = 0;
    let open: () => void = () => undefined;
    provider.barrier = new Promise((done) => (open = done));
    const client = openai({ maxTokens: 100 });
    let refused = 0;
    const calls = Array.from({ length: 200 }, () =>
      client.chat.completions.create(ask).then(
        () => 'answered',
        (error) => {
          assert.ok(error instanceof RefusedError, String(error));
          refused += 1;
          return 'refused';
        },
      ),
    );
    await eventually(() => provider.calls.length + refused === 200);
    assert.deepEqual([provider.calls.length, refused], [20, 180]);
    open();
    const ends = await Promise.all(calls);
    assert.equal(ends.filter((end) => end === 'answered').length, 20);
    assert.deepEqual(await balance(), { posted: posted + 20 * answerCost(GPT), held: 0 });
  });
});

describe('Anthropic', () => {
  test('a message, a stream and the helper of the package are settled with their usage', async () => {
    const message = await anthropic().messages.create(askClaude);
    assert.equal(message.content[0]?.type, 'text');
    assert.equal((await lastSettledAs('usage')).cost, answerCost(CLAUDE));
    for await (const _ of await anthropic().messages.create({ ...askClaude, stream: true })) {
      // Reads to the end.
    }
    assert.equal((await lastSettledAs('usage')).cost, answerCost(CLAUDE));
    assert.equal(await anthropic().messages.stream(askClaude).finalText(), 'The harbour is quiet at dawn.');
    await lastSettledAs('usage');
    assert.equal(provider.billed, 3 * answerCost(CLAUDE));
  });

  test('an unfinished stream is charged its input and its maximum of output', async () => {
    for (const fault of ['cut', 'error event', undefined] as const) {
      provider.faults = [fault];
      settled.length = 0;
      const before = (await balance()).posted ?? 0;
      const reading = async () => {
        for await (const event of await anthropic().messages.create({ ...askClaude, stream: true })) {
          if (fault === undefined && event.type === 'content_block_delta') break;
        }
      };
      if (fault) await assert.rejects(reading);
      else await reading();
      const call = await eventually(() => settled.at(-1));
      const expected = costOf(priceOf(CLAUDE), { input: 100, cachedInput: 20, output: 500 });
      assert.deepEqual([call.by, call.cost], ['unfinished', expected], String(fault));
      assert.deepEqual(await balance(), { posted: before + expected, held: 0 });
    }
  });

  test('refusals and calls without a bound', async () => {
    const search = { type: 'web_search_20250305' as const, name: 'web_search' as const };
    await assert.rejects(anthropic().messages.create({ ...askClaude, tools: [search] }), UnboundedCallError);
    await anthropic({ serverTools: { web_search: 10_000 } }).messages.create({ ...askClaude, tools: [search] });
    await lastSettledAs('usage');
    const pdf = { type: 'document' as const, source: { type: 'base64' as const, media_type: 'application/pdf' as const, data: 'AAAA' } };
    await assert.rejects(anthropic().messages.create({ ...askClaude, messages: [{ role: 'user', content: [pdf] }] }), UnboundedCallError);
    await budget((await balance()).posted ?? 0);
    provider.calls.length = 0;
    await assert.rejects(anthropic().messages.create(askClaude), RefusedError);
    assert.equal(provider.calls.length, 0);
  });
});

describe('within a job', () => {
  const client = (more: Partial<MeterOptions>) =>
    wrapOpenAI(new OpenAI({ apiKey: 'k', baseURL: `${provider.url}/v1`, maxRetries: 0 }), { maxTokens: 100, ...more } as MeterOptions);

  /** Runs one job with the token of a worker, which may not read holds. */
  async function run(charges: { scope: string; amount: number }[], handler: (ctx: JobContext) => Promise<unknown>, meanwhile?: () => Promise<void>) {
    const queue = `jobs-${scope.replace(':', '-')}`;
    const { token } = await bursar.workers.create({ name: queue, capabilities: { queues: [queue], kinds: ['think'] } });
    const worker = createWorker({ url: server.url, token: token ?? '', queues: [queue] });
    worker.on('think', (_, ctx) => handler(ctx));
    const job = { queue, kind: 'think', max_attempts: 1 };
    const running = await worker.start();
    try {
      const enqueue = async () => (await bursar.commands.submit({ charges, jobs: [job], settle: 'job' })).jobs[0]?.id as string;
      const id = charges.length > 0 ? await enqueue() : (await bursar.jobs.enqueue(job)).id;
      await meanwhile?.();
      const ended = await bursar.jobs.wait(id, { signal: AbortSignal.timeout(PATIENCE_MS) });
      assert.equal(ended.state, 'succeeded', JSON.stringify(ended.error));
      return ended;
    } finally {
      await running.drain();
    }
  }

  const calls = async (of: OpenAI) => {
    const calls = await Promise.allSettled(Array.from({ length: 10 }, () => of.chat.completions.create(ask)));
    const refused = calls.filter((call) => call.status === 'rejected' && call.reason instanceof RefusedError);
    return { answered: calls.filter((call) => call.status === 'fulfilled').length, refused: refused.length };
  };

  test('the hold of the job is the cap of its calls, also above a `cap`', async () => {
    await openai({ maxTokens: 100 }).chat.completions.create(ask);
    const bound = settled[0]?.bound ?? 0;
    const { posted } = await balance();
    provider.calls.length = 0;
    // Answers wait until the calls that have units are sent, so that no settled call makes room for another one.
    let open: () => void = () => undefined;
    provider.barrier = new Promise((done) => (open = done));
    const sent = async () => {
      await eventually(() => provider.calls.length === 3);
      open();
    };
    const charges = [{ scope, amount: 3 * bound + bound - 1 }];
    const job = await run(charges, async (ctx) => ({ ...(await calls(client({ ctx, cap: 100 * bound }))), spent: ctx.spent() }), sent);
    assert.deepEqual(job.result, { answered: 3, refused: 7, spent: 3 * answerCost(GPT) });
    assert.deepEqual(await balance(), { posted: posted + 3 * answerCost(GPT), held: 0 });
  });

  test('a hold below the bound of a call admits none', async () => {
    const job = await run([{ scope, amount: 100 }], async (ctx) => calls(client({ ctx })));
    assert.deepEqual(job.result, { answered: 0, refused: 10 });
    assert.equal(provider.calls.length, 0);
  });

  test('`scope` names the charge of the hold that pays', async () => {
    const seats = `${scope}/seats`;
    await budget(10, seats);
    const job = await run(
      [
        { scope: seats, amount: 1 },
        { scope, amount: 100_000 },
      ],
      async (ctx) => {
        await assert.rejects(client({ ctx }).chat.completions.create(ask), isArgumentError);
        await assert.rejects(client({ ctx, scope: 'other' }).chat.completions.create(ask), isArgumentError);
        await client({ ctx, scope }).chat.completions.create(ask);
      },
    );
    assert.deepEqual(job.cost, [{ scope, amount: answerCost(GPT) }]);
    assert.equal(provider.calls.length, 1);
  });

  test('a batch is refused, because it outlives the attempt', async () => {
    const batch = { requests: [{ custom_id: 'a', params: askClaude }] };
    const created = { input_file_id: 'file-1', endpoint: '/v1/chat/completions', completion_window: '24h' } as const;
    const outlives = (error: unknown) => error instanceof UnboundedCallError && /outlives the attempt/.test(error.message);
    await run([{ scope, amount: 100_000 }], async (ctx) => {
      await assert.rejects(client({ ctx }).batches.create(created), outlives);
      const claude = wrapAnthropic(new Anthropic({ apiKey: 'k', baseURL: provider.url }), { ctx });
      await assert.rejects(claude.messages.batches.create(batch), outlives);
    });
    assert.deepEqual([provider.batches.created.size, provider.batches.reads.length], [0, 0]);
  });

  test('a job without a hold pays for nothing', async () => {
    await run([], (ctx) => assert.rejects(client({ ctx }).chat.completions.create(ask), isArgumentError));
    assert.equal(provider.calls.length, 0);
  });
});

/** Packages of providers wrap what their `fetch` throws. */
function isArgumentError(error: unknown): boolean {
  for (let inner = error; inner instanceof Error; inner = inner.cause) if (inner instanceof ArgumentError) return true;
  return false;
}

test('prices: dated names, cached and reasoning tokens, long requests', () => {
  assert.deepEqual(priceOf('gpt-4o-2024-08-06'), PRICES.models['gpt-4o']);
  assert.deepEqual(priceOf('claude-sonnet-4-5-20250929'), PRICES.models['claude-sonnet-4-5']);
  const file = { version: '1', models: { m: { input: 1, cached_input: 2, cache_write: 3, cache_write_1h: 4, output: 5, batch: 0.5 } } };
  assert.deepEqual(priceOf('m', file), { input: 1, cachedInput: 2, cacheWrite: 3, cacheWriteLong: 4, output: 5, batch: 0.5 });
  assert.throws(() => priceOf('gpt-4o-audio-preview'), UnknownPriceError);
  assert.throws(() => priceOf('constructor'), UnknownPriceError);
  const price = { input: 1_000_000, cachedInput: 100_000, cacheWrite: 1_250_000, output: 2_000_000, reasoning: 3_000_000 };
  assert.equal(costOf(price, { input: 10, cachedInput: 10, cacheWrite: 4, output: 10, reasoning: 5 }), 10 + 1 + 5 + 10 + 15);
  assert.equal(costOf(priceOf('claude-sonnet-4-5'), { input: 200_000, output: 0 }), 600_000);
  assert.equal(costOf(priceOf('claude-sonnet-4-5'), { input: 200_001, output: 0 }), 1_200_006);
});
