/** A local server that speaks the wire formats of OpenAI and Anthropic, with faults. It stands in for the providers' services; the packages that
 * call it are the real ones. */

import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { costOf, priceOf } from '../src/models/index.js';
import { BatchService } from './provider_batches.js';
import { CACHED, INPUT, OUTPUT, REASONING } from './provider_tokens.js';

/** What goes wrong with a request: an error status, a stream that is cut, an answer without usage, a connection that is closed. */
export type Fault = 429 | 500 | 504 | 'cut' | 'no usage' | 'closed' | 'error event';

export interface ProviderCall {
  path: string;
  body: Record<string, unknown>;
}

const WORDS = ['The', ' harbour', ' is', ' quiet', ' at', ' dawn', '.'];

export class Provider {
  readonly calls: ProviderCall[] = [];
  /** Files and batches. Their requests are no `calls`. */
  readonly batches = new BatchService(() => this.url);
  /** The faults of the next requests. */
  faults: (Fault | undefined)[] = [];
  /** What the provider bills for the answers that it has completed, in micro-dollars. */
  billed = 0;
  /** Answers wait for this. */
  barrier: Promise<void> = Promise.resolve();
  url = '';
  private readonly server = createServer((request, response) => void this.answer(request, response).catch(() => response.destroy()));

  static async start(): Promise<Provider> {
    const provider = new Provider();
    await new Promise<void>((done) => provider.server.listen(0, '127.0.0.1', done));
    provider.url = `http://127.0.0.1:${(provider.server.address() as AddressInfo).port}`;
    return provider;
  }

  async stop(): Promise<void> {
    this.server.closeAllConnections();
    await new Promise((done) => this.server.close(done));
  }

  private async answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const parts: Buffer[] = [];
    for await (const part of request) parts.push(part);
    const path = request.url ?? '';
    const sent = Buffer.concat(parts);
    const reading = await this.batches.read(request, sent);
    if (reading) {
      response.writeHead(reading.status, { 'content-type': reading.type });
      for await (const chunk of reading.body) response.write(chunk);
      return void response.end();
    }
    const body = JSON.parse(sent.toString() || '{}');
    const creating = this.batches.creates(request);
    if (!creating) this.calls.push({ path, body });
    const fault = this.faults.shift();
    await this.barrier;
    if (fault === 'closed') return void response.destroy();
    if (typeof fault === 'number') {
      const headers = { 'content-type': 'application/json', 'retry-after-ms': '1' };
      return void response.writeHead(fault, headers).end(JSON.stringify({ type: 'error', error: { type: 'fault', message: `fault ${fault}` } }));
    }
    if (creating) {
      return void response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(this.batches.create(creating, body)));
    }
    const format = path.endsWith('/messages')
      ? anthropic
      : path.endsWith('/responses')
        ? responses
        : path.endsWith('/embeddings')
          ? embeddings
          : chat;
    const { answer, events } = format(body, fault);
    if (body.stream === true) return this.stream(response, events, body.model, fault);
    this.bill(body.model);
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(answer));
  }

  private async stream(response: ServerResponse, events: string[], model: string, fault: Fault | undefined): Promise<void> {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    const sent = fault === 'cut' ? events.slice(0, Math.ceil(events.length / 2)) : events;
    for (const event of sent) {
      response.write(event);
      // Every event is a chunk of its own, so that a reader can stop between two of them.
      await new Promise((done) => setTimeout(done, 2));
    }
    this.bill(model);
    if (fault === 'cut') response.destroy();
    else response.end();
  }

  private bill(model: string): void {
    this.billed += answerCost(model);
  }
}

/** Returns what one answer costs. */
export function answerCost(model: string): number {
  if (model.startsWith('text-embedding')) return costOf(priceOf(model), { input: INPUT, output: 0 });
  return costOf(priceOf(model), { input: INPUT - CACHED, cachedInput: CACHED, output: OUTPUT, reasoning: REASONING });
}

interface Answers {
  answer: unknown;
  events: string[];
}

type Body = Record<string, unknown>;

function sse(data: unknown, event?: string): string {
  return `${event ? `event: ${event}\n` : ''}data: ${typeof data === 'string' ? data : JSON.stringify(data)}\n\n`;
}

function chat(body: Body, fault: Fault | undefined): Answers {
  const usage = {
    prompt_tokens: INPUT,
    completion_tokens: OUTPUT,
    total_tokens: INPUT + OUTPUT,
    prompt_tokens_details: { cached_tokens: CACHED },
    completion_tokens_details: { reasoning_tokens: REASONING },
  };
  const base = { id: 'chatcmpl-1', created: 1, model: body.model };
  const message = { role: 'assistant', content: WORDS.join(''), refusal: null };
  const answer = {
    ...base,
    object: 'chat.completion',
    choices: [{ index: 0, message, finish_reason: 'stop', logprobs: null }],
    ...(fault === 'no usage' ? {} : { usage }),
  };
  const chunk = (choices: unknown[], more = {}) => sse({ ...base, object: 'chat.completion.chunk', choices, ...more });
  const asked = (body.stream_options as { include_usage?: boolean } | undefined)?.include_usage && fault !== 'no usage';
  const events = [
    chunk([{ index: 0, delta: { role: 'assistant', content: '' }, finish_reason: null }]),
    ...WORDS.map((content) => chunk([{ index: 0, delta: { content }, finish_reason: null }])),
    chunk([{ index: 0, delta: {}, finish_reason: 'stop' }]),
    ...(asked ? [chunk([], { usage })] : []),
    sse('[DONE]'),
  ];
  return { answer, events };
}

function responses(body: Body, fault: Fault | undefined): Answers {
  const usage = {
    input_tokens: INPUT,
    input_tokens_details: { cached_tokens: CACHED },
    output_tokens: OUTPUT,
    output_tokens_details: { reasoning_tokens: REASONING },
    total_tokens: INPUT + OUTPUT,
  };
  const item = {
    id: 'msg_1',
    type: 'message',
    role: 'assistant',
    status: 'completed',
    content: [{ type: 'output_text', text: WORDS.join(''), annotations: [] }],
  };
  const base = { id: 'resp_1', object: 'response', created_at: 1, model: body.model, error: null, incomplete_details: null };
  const answer = { ...base, status: 'completed', output: [item], ...(fault === 'no usage' ? {} : { usage }) };
  let number = 0;
  const event = (type: string, more: object) => sse({ type, sequence_number: number++, ...more }, type);
  const place = { item_id: 'msg_1', output_index: 0, content_index: 0 };
  const events = [
    event('response.created', { response: { ...base, status: 'in_progress', output: [] } }),
    event('response.output_item.added', { output_index: 0, item: { ...item, status: 'in_progress', content: [] } }),
    event('response.content_part.added', { ...place, part: { type: 'output_text', text: '', annotations: [] } }),
    ...WORDS.map((delta) => event('response.output_text.delta', { ...place, delta })),
    event('response.output_text.done', { ...place, text: WORDS.join('') }),
    event('response.output_item.done', { output_index: 0, item }),
    event('response.completed', { response: answer }),
  ];
  return { answer, events };
}

function embeddings(body: Body): Answers {
  const data = [{ object: 'embedding', index: 0, embedding: [0.25, 0.5] }];
  return { answer: { object: 'list', data, model: body.model, usage: { prompt_tokens: INPUT, total_tokens: INPUT } }, events: [] };
}

function anthropic(body: Body, fault: Fault | undefined): Answers {
  const input = { input_tokens: INPUT - CACHED, cache_creation_input_tokens: 0, cache_read_input_tokens: CACHED };
  const base = { id: 'msg_1', type: 'message', role: 'assistant', model: body.model, stop_sequence: null };
  const usage = { ...input, output_tokens: OUTPUT };
  const answer = { ...base, content: [{ type: 'text', text: WORDS.join('') }], stop_reason: 'end_turn', ...(fault === 'no usage' ? {} : { usage }) };
  const event = (type: string, more: object = {}) => sse({ type, ...more }, type);
  const start = { ...base, content: [], stop_reason: null, usage: fault === 'no usage' ? undefined : { ...input, output_tokens: 1 } };
  const events = [
    event('message_start', { message: start }),
    event('content_block_start', { index: 0, content_block: { type: 'text', text: '' } }),
    ...WORDS.map((text) => event('content_block_delta', { index: 0, delta: { type: 'text_delta', text } })),
    event('content_block_stop', { index: 0 }),
    event('message_delta', { delta: { stop_reason: 'end_turn', stop_sequence: null }, usage: fault === 'no usage' ? {} : { output_tokens: OUTPUT } }),
    event('message_stop'),
  ];
  if (fault === 'error event') events.splice(5, Number.POSITIVE_INFINITY, event('error', { error: { type: 'overloaded_error', message: 'busy' } }));
  return { answer, events };
}
