/** Batches of OpenAI. Their requests are the lines of a file that was uploaded before, and their metadata names the hold. */

import { ArgumentError } from '../errors.js';
import { BatchBound, type BatchCharge, Batches, lookAt } from './batches.js';
import { isObject, type Json, list, number, parsed } from './json.js';
import { linesOf } from './lines.js';
import { UnboundedCallError } from './measure.js';
import type { Meter } from './meter.js';
import type { BatchRequests, Passage, Plan, UsageReader, Wire, WireRequest } from './metered_fetch.js';
import { exactCost, microDollars } from './prices.js';

/** The key of the metadata whose value is the id of the hold. */
const HOLD = 'bursar_hold';
/** The key of the metadata that says that the prices of long requests may apply. The usage of a batch is a sum, which does not tell. */
const LONG = 'bursar_long';
/** OpenAI's limit of pairs in the metadata. */
const METADATA_PAIRS_MAX = 16;
/** OpenAI's limit of an input file. */
const FILE_BYTES_MAX = 200 * 1024 * 1024;

/** Models whose cached tokens have no lower price in a batch. */
const NO_CACHE_DISCOUNT = /^(gpt-4|o\d)/;

const ENDED = new Set(['completed', 'expired', 'cancelled', 'failed']);

export class OpenAIBatches implements BatchRequests {
  private readonly batches: Batches;

  constructor(
    private readonly meter: Meter,
    private readonly wire: Wire,
    private readonly usage: () => UsageReader,
  ) {
    this.batches = new Batches(meter);
  }

  async admit(request: WireRequest): Promise<Passage | undefined> {
    const { method, url } = request;
    if (method === 'POST' && /\/batches$/.test(url.pathname)) return this.create(request);
    const shown = method === 'GET' ? /\/batches(\/[^/]+)?$/ : method === 'POST' ? /\/batches\/[^/]+\/cancel$/ : undefined;
    if (!shown?.test(url.pathname)) return undefined;
    return { answered: (response) => lookAt(response, (body) => this.settle(body)) };
  }

  /** Holds the bound of a batch. */
  private async create(request: WireRequest): Promise<Passage> {
    this.batches.checkPayer();
    const { body, signal } = request;
    if (!isObject(body) || typeof body.input_file_id !== 'string') throw new UnboundedCallError('the batch has no `input_file_id`');
    const bound = await this.boundOf(request, body.input_file_id, body.endpoint);
    const metadata = metadataFor(body.metadata, bound);
    const held = await this.batches.hold(bound, signal);
    if (!held) return { answered: async (response) => response };
    return {
      body: { ...body, metadata: { ...metadata, [HOLD]: held.id } },
      async answered(response) {
        await held.answered(response);
        return response;
      },
      failed: (error) => held.failed(error),
    };
  }

  private async boundOf(request: WireRequest, file: string, endpoint: unknown): Promise<BatchBound> {
    const bound = new BatchBound(this.meter);
    let number = 0;
    let requests = 0;
    for await (const text of readFile(request, file)) {
      number += 1;
      if (text.trim() === '') continue;
      requests += 1;
      const line = parsed(text);
      if (!isObject(line)) throw new UnboundedCallError(`line ${number} of the input file is no JSON object`);
      bound.add(`line ${number} of the input file (custom_id ${JSON.stringify(line.custom_id)})`, () => this.planOf(line, endpoint));
    }
    if (requests === 0) throw new UnboundedCallError(`the input file ${file} has no requests`);
    return bound;
  }

  /** Returns the plan of a line. The file cannot be changed any more, so the line itself has to set what bounds it. */
  private planOf({ method, url, body }: Json, endpoint: unknown): Plan | undefined {
    if (method !== 'POST') throw new UnboundedCallError('its `method` is not POST');
    if (typeof url !== 'string' || url !== endpoint) throw new UnboundedCallError(`its \`url\` is not the \`endpoint\` of the batch, ${endpoint}`);
    if (isObject(body) && body.stream === true) throw new UnboundedCallError('it asks for a stream');
    const plan = this.wire(method, url, body, this.meter);
    if (plan && !plan.limited) throw new UnboundedCallError('it sets no maximum of output tokens');
    return plan;
  }

  /** Settles the batches of an answer that have ended: one batch, or a page of a list. */
  private async settle(body: unknown): Promise<void> {
    const shown = isObject(body) && Array.isArray(body.data) ? list(body.data) : [body].filter(isObject);
    await Promise.all(
      shown.map(async (batch) => {
        const { id, status, metadata, model } = batch;
        const hold = isObject(metadata) ? metadata[HOLD] : undefined;
        if (typeof id !== 'string' || typeof hold !== 'string' || !ENDED.has(String(status))) return;
        await this.batches.settle(id, hold, typeof model === 'string' ? model : 'batch', () => this.chargeOf(batch));
      }),
    );
  }

  private chargeOf(batch: Json): BatchCharge {
    const cost = this.costOf(batch);
    if (cost !== undefined) return { by: 'usage', cost };
    const { status, request_counts: counts } = batch;
    const ran = status !== 'failed' && !(isObject(counts) && counts.completed === 0);
    return { by: ran ? 'unfinished' : 'released' };
  }

  /** Returns the cost of a batch by its usage, if it has one. */
  private costOf({ metadata, model, usage }: Json): number | undefined {
    const reader = this.usage();
    reader.answer({ usage });
    const result = reader.result();
    // Every request has input, so a usage of zero says nothing.
    if (!result.known || typeof model !== 'string' || (isObject(usage) && number(usage.input_tokens) === 0)) return undefined;
    const price = this.meter.priceOf(model);
    const rates = price.long && isObject(metadata) && metadata[LONG] !== undefined ? price.long : { ...price, long: undefined };
    const { input, cachedInput = 0, ...output } = result.usage;
    const tokens = NO_CACHE_DISCOUNT.test(model) ? { ...output, input: input + cachedInput } : result.usage;
    return microDollars(exactCost(rates, tokens) * (price.batch ?? 1));
  }
}

/** Returns the metadata of a batch without its hold. A caller may have copied that of an earlier batch. */
function metadataFor(own: unknown, bound: BatchBound): Json {
  const { [HOLD]: _hold, [LONG]: _long, ...metadata } = isObject(own) ? own : {};
  if (bound.long) metadata[LONG] = 'true';
  const pairs = Object.keys(metadata).length;
  if (pairs >= METADATA_PAIRS_MAX) {
    throw new ArgumentError(
      `the metadata of the batch has no room for \`${HOLD}\`: at most ${METADATA_PAIRS_MAX} pairs are allowed; nothing was sent`,
    );
  }
  return metadata;
}

/** Yields the lines of an uploaded file. */
async function* readFile(request: WireRequest, file: string): AsyncGenerator<string> {
  const refused = (why: string) => new UnboundedCallError(`the input file ${file} ${why}`);
  const url = new URL(request.url);
  // Azure may send a batch to a deployment. Files belong to none.
  url.pathname = url.pathname.replace(/(\/deployments\/[^/]+)?\/batches$/, `/files/${encodeURIComponent(file)}/content`);
  try {
    const response = await request.read(url);
    if (!response.ok) {
      await response.body?.cancel();
      throw refused(`cannot be read: the provider answered with status ${response.status}`);
    }
    if (!response.body) return;
    let bytes = 0;
    yield* linesOf(response.body, (chunk) => {
      bytes += chunk.byteLength;
      if (bytes > FILE_BYTES_MAX) throw refused('has more than 200 MB');
    });
  } catch (error) {
    request.signal?.throwIfAborted();
    throw error instanceof UnboundedCallError ? error : refused(`cannot be read: ${error instanceof Error ? error.message : error}`);
  }
}
