/** The files and batches of the local provider. A test decides how and when a batch ends. */

import type { IncomingMessage } from 'node:http';
import { costOf, priceOf } from '../src/models/index.js';
import { CACHED, INPUT, OUTPUT, REASONING } from './provider_tokens.js';

type Json = Record<string, unknown>;

interface Answer {
  status: number;
  type: string;
  body: Iterable<string> | AsyncIterable<string>;
}

interface CreatedBatch {
  /** What the provider shows of it. */
  shown: Json;
  models: string[];
  /** The lines of its results. */
  results: string[];
  body: Json;
}

/** The id of a file that has more than 200 MB. */
export const LARGE_FILE = 'file-large';

/** Returns what a batch costs in which so many requests have succeeded. */
export function batchCost(model: string, succeeded: number): number {
  const usage = { input: INPUT - CACHED, cachedInput: CACHED, output: OUTPUT, reasoning: model.startsWith('claude') ? 0 : REASONING };
  const all = Object.fromEntries(Object.entries(usage).map(([name, tokens]) => [name, tokens * succeeded])) as typeof usage;
  return Math.ceil(costOf(priceOf(model), all) / 2);
}

export class BatchService {
  readonly files = new Map<string, string>();
  readonly created = new Map<string, CreatedBatch>();
  /** The headers of the requests that have read a file. */
  readonly reads: IncomingMessage['headers'][] = [];
  private ids = 0;

  constructor(private readonly url: () => string) {}

  clear(): void {
    for (const part of [this.files, this.created]) part.clear();
    this.reads.length = 0;
  }

  /** The only batch that was created. */
  get only(): CreatedBatch {
    const [batch, ...others] = this.created.values();
    if (!batch || others.length > 0) throw new Error(`${this.created.size} batches were created`);
    return batch;
  }

  /** Returns the provider of a request that creates a batch. */
  creates(request: IncomingMessage): 'openai' | 'anthropic' | undefined {
    const path = pathOf(request);
    if (request.method !== 'POST' || !path.endsWith('/batches')) return undefined;
    return path.endsWith('/messages/batches') ? 'anthropic' : 'openai';
  }

  create(provider: 'openai' | 'anthropic', body: Json): Json {
    this.ids += 1;
    return provider === 'openai' ? this.createOpenAI(body) : this.createAnthropic(body);
  }

  /** Ends a batch of OpenAI, with the usage of `completed` requests. */
  endOpenAI(status: string, completed: number, more: Json = {}): void {
    const { shown, models } = this.only;
    const usage = {
      input_tokens: completed * INPUT,
      input_tokens_details: { cached_tokens: completed * CACHED },
      output_tokens: completed * OUTPUT,
      output_tokens_details: { reasoning_tokens: completed * REASONING },
      total_tokens: completed * (INPUT + OUTPUT),
    };
    const counts = { total: models.length, completed, failed: models.length - completed };
    Object.assign(shown, { status, model: models[0], request_counts: counts, usage }, more);
  }

  /** Ends a batch of Anthropic: the requests succeed or end otherwise. */
  endAnthropic(...types: ('succeeded' | 'errored' | 'canceled' | 'expired' | 'without usage')[]): void {
    const batch = this.only;
    const succeeded = types.filter((type) => type === 'succeeded' || type === 'without usage').length;
    const id = batch.shown.id;
    Object.assign(batch.shown, {
      processing_status: 'ended',
      ended_at: '2026-11-18T01:00:00Z',
      request_counts: { processing: 0, succeeded, errored: types.length - succeeded, canceled: 0, expired: 0 },
      results_url: `${this.url()}/v1/messages/batches/${id}/results`,
    });
    const usage = { input_tokens: INPUT - CACHED, cache_creation_input_tokens: 0, cache_read_input_tokens: CACHED, output_tokens: OUTPUT };
    batch.results = types.map((type, index) => {
      const content = [{ type: 'text', text: 'The harbour is quiet. 🦀' }];
      const message = { id: 'msg_1', type: 'message', role: 'assistant', model: batch.models[index], content, stop_reason: 'end_turn' };
      const results: Record<string, Json> = {
        succeeded: { type, message: { ...message, usage } },
        'without usage': { type: 'succeeded', message },
        errored: { type, error: { type: 'error', error: { type: 'invalid_request', message: 'no' } } },
      };
      return JSON.stringify({ custom_id: `r${index}`, result: results[type] ?? { type } });
    });
  }

  /** Answers a request that creates no batch and calls no model. */
  async read(request: IncomingMessage, sent: Buffer): Promise<Answer | undefined> {
    const path = pathOf(request);
    if (request.method === 'POST' && path.endsWith('/files')) return this.upload(request, sent);
    const file = /\/files\/([^/]+)\/content$/.exec(path)?.[1];
    if (file) {
      this.reads.push(request.headers);
      return this.fileContent(file);
    }
    if (request.method === 'GET' && path.endsWith('/batches')) {
      return json(200, { object: 'list', data: [...this.created.values()].map(({ shown }) => shown), has_more: false });
    }
    const [, id, action] = /\/batches\/([^/]+)(?:\/(cancel|results))?$/.exec(path) ?? [];
    if (id === undefined) return undefined;
    const batch = this.created.get(id);
    if (!batch) return json(404, { error: { message: `there is no batch ${id}` } });
    return action === 'results' ? { status: 200, type: 'application/binary', body: chunks(batch.results) } : json(200, batch.shown);
  }

  private createOpenAI({ input_file_id, endpoint, completion_window, metadata = null, ...more }: Json): Json {
    const id = `batch_${this.ids}`;
    const lines = (this.files.get(String(input_file_id)) ?? '').split('\n').filter((line) => line.trim() !== '');
    const models = lines.map((line) => JSON.parse(line).body.model);
    const shown: Json = { id, object: 'batch', endpoint, input_file_id, completion_window, status: 'validating', created_at: 1, metadata };
    this.created.set(id, { shown, models, results: [], body: { input_file_id, endpoint, completion_window, metadata, ...more } });
    return shown;
  }

  private createAnthropic(body: Json): Json {
    const id = `msgbatch_${this.ids}`;
    const requests = body.requests as { params: { model: string } }[];
    const request_counts = { processing: requests.length, succeeded: 0, errored: 0, canceled: 0, expired: 0 };
    const shown: Json = { id, type: 'message_batch', processing_status: 'in_progress', request_counts, results_url: null, ended_at: null };
    this.created.set(id, { shown, models: requests.map(({ params }) => params.model), results: [], body });
    return shown;
  }

  private async upload(request: IncomingMessage, sent: Buffer): Promise<Answer> {
    const headers = { 'content-type': request.headers['content-type'] ?? '' };
    const form = await new Response(new Uint8Array(sent), { headers }).formData();
    const file = form.get('file');
    if (!(file instanceof File)) return json(400, { error: { message: 'there is no file' } });
    this.ids += 1;
    const id = `file-${this.ids}`;
    this.files.set(id, await file.text());
    return json(200, { id, object: 'file', bytes: file.size, filename: file.name, purpose: form.get('purpose') });
  }

  private fileContent(id: string): Answer {
    const text = this.files.get(id);
    if (text === undefined) return json(404, { error: { message: `there is no file ${id}` } });
    return { status: 200, type: 'application/octet-stream', body: id === LARGE_FILE ? megabytes(201) : [text] };
  }
}

function pathOf(request: IncomingMessage): string {
  return new URL(request.url ?? '', 'http://provider').pathname;
}

function json(status: number, body: unknown): Answer {
  return { status, type: 'application/json', body: [JSON.stringify(body)] };
}

function* megabytes(count: number): Generator<string> {
  const megabyte = `${' '.repeat(1024 * 1024 - 1)}\n`;
  for (let index = 0; index < count; index += 1) yield megabyte;
}

/** Yields every line in two chunks. The last one has no line break. */
async function* chunks(lines: string[]): AsyncGenerator<string> {
  for (const [index, line] of lines.entries()) {
    const text = index === 0 ? line : `\n${line}`;
    yield text.slice(0, text.length / 2);
    await new Promise((done) => setTimeout(done, 2));
    yield text.slice(text.length / 2);
  }
}
