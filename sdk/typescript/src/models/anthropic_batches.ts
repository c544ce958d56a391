/** Batches of Anthropic. Their requests are in the body, and their results are the lines of a file. They have no metadata, so the wrapper remembers
 * the hold of each batch. */

import { BursarError } from '../errors.js';
import { BatchBound, type BatchCharge, Batches, type BatchHolds, lookAt, modelOf } from './batches.js';
import { isObject, type Json, parsed } from './json.js';
import { tapLines } from './lines.js';
import { UnboundedCallError } from './measure.js';
import type { Meter } from './meter.js';
import { type BatchRequests, headOf, type Passage, type Plan, type UsageReader, type Wire, type WireRequest } from './metered_fetch.js';
import { exactCost, microDollars } from './prices.js';

/** The holds of the batches that this process has created. */
const HOLDS: BatchHolds = new Map<string, string>();

export class AnthropicBatches implements BatchRequests {
  private readonly batches: Batches;
  private readonly holds: BatchHolds;

  constructor(
    private readonly meter: Meter,
    private readonly wire: Wire,
    private readonly usage: () => UsageReader,
  ) {
    this.batches = new Batches(meter);
    this.holds = meter.options.batchHolds ?? HOLDS;
  }

  async admit(request: WireRequest): Promise<Passage | undefined> {
    const { method, url } = request;
    const found = /\/messages\/batches(?:\/([^/]+)(\/results)?)?$/.exec(url.pathname);
    if (!found) return undefined;
    const [, id, results] = found;
    if (method === 'POST' && id === undefined) return this.create(request);
    if (method !== 'GET' || id === undefined || this.meter.options.ctx) return undefined;
    if (results) return { answered: async (response) => this.tapResults(id, response) };
    return { answered: (response) => lookAt(response, (body) => this.settleIfNothingRan(id, body)) };
  }

  /** Holds the bound of a batch. */
  private async create({ url, body, signal }: WireRequest): Promise<Passage> {
    this.batches.checkPayer();
    if (!isObject(body) || !Array.isArray(body.requests) || body.requests.length === 0) throw new UnboundedCallError('the batch has no `requests`');
    const bound = new BatchBound(this.meter);
    const path = url.pathname.replace(/\/batches$/, '');
    const requests = body.requests.map((request, index) => this.bounded(bound, path, request, index));
    const held = await this.batches.hold(bound, signal);
    const sent = { ...body, requests };
    if (!held) return { body: sent, answered: async (response) => response };
    return {
      body: sent,
      answered: async (response) => {
        await held.answered(response);
        return lookAt(response, (batch) => this.created(batch, held.id));
      },
      failed: (error) => held.failed(error),
    };
  }

  /** Adds a request to the bound, and returns it with a maximum of output tokens. */
  private bounded(bound: BatchBound, path: string, request: unknown, index: number): unknown {
    const { custom_id, params } = isObject(request) ? request : ({} as Json);
    const plan = bound.add(`request ${index + 1} of the batch (custom_id ${JSON.stringify(custom_id)})`, () => this.planOf(path, params));
    return { ...(request as Json), params: plan?.body };
  }

  private planOf(path: string, params: unknown): Plan | undefined {
    if (isObject(params) && params.stream === true) throw new UnboundedCallError('it asks for a stream');
    return this.wire('POST', path, params, this.meter);
  }

  private async created(batch: unknown, hold: string): Promise<void> {
    const id = isObject(batch) ? batch.id : undefined;
    await this.guard(async () => {
      if (typeof id !== 'string') throw new BursarError('the provider has answered without the id of the batch');
      await this.holds.set(id, hold);
    });
  }

  private async settleIfNothingRan(id: string, body: unknown): Promise<void> {
    if (!isObject(body) || body.processing_status !== 'ended') return;
    const { request_counts: counts } = body;
    if (isObject(counts) && counts.succeeded === 0) await this.settle(id, 'batch', () => ({ by: 'released' }));
  }

  /** Returns the results as they are, and settles the batch when the caller has read them all. */
  private tapResults(id: string, response: Response): Response {
    if (!response.ok || !response.body || this.batches.isDone(id)) return response;
    const results = new Results(this.meter, this.usage);
    const ended = () => this.settle(id, results.model, () => results.charge());
    return new Response(
      tapLines(response.body, (line) => results.add(line), ended),
      headOf(response),
    );
  }

  private async settle(id: string, model: string, chargeOf: () => BatchCharge): Promise<void> {
    if (this.batches.isDone(id)) return;
    await this.guard(async () => {
      const hold = await this.holds.get(id);
      if (hold === undefined) this.batches.unknown(id, 'its hold is not known, see `batchHolds`');
      else if (await this.batches.settle(id, hold, model, chargeOf)) await this.holds.delete(id);
    });
  }

  /** Reports a failure of `batchHolds`: the answer of the provider is not lost with it. */
  private async guard(work: () => Promise<void>): Promise<void> {
    try {
      await work();
    } catch (error) {
      this.meter.warn(error);
    }
  }
}

/** Adds up what the results of a batch cost. */
class Results {
  private millionths = 0;
  private results = 0;
  private readonly models = new Set<string>();
  private withoutUsage = false;
  private failure: unknown;

  constructor(
    private readonly meter: Meter,
    private readonly usage: () => UsageReader,
  ) {}

  /** Adds a line. A line that cannot be priced fails `charge`, and the caller gets it as it is. */
  add(line: string): void {
    if (line.trim() === '' || this.failure !== undefined) return;
    this.results += 1;
    try {
      this.addResult(parsed(line));
    } catch (error) {
      this.failure = error;
    }
  }

  private addResult(line: unknown): void {
    if (!isObject(line) || !isObject(line.result)) throw new BursarError('a line of the results of a batch cannot be read');
    const { type, message } = line.result;
    if (type !== 'succeeded') return;
    const usage = this.usage();
    usage.answer(message);
    const result = usage.result();
    if (!result.known || !isObject(message) || typeof message.model !== 'string') {
      this.withoutUsage = true;
      return;
    }
    const price = this.meter.priceOf(message.model);
    this.models.add(message.model);
    this.millionths += exactCost(price, result.usage) * (price.batch ?? 1);
  }

  get model(): string {
    return modelOf(this.models);
  }

  charge(): BatchCharge {
    if (this.failure !== undefined) throw this.failure;
    if (this.results === 0) throw new BursarError('the results of a batch have no lines');
    return this.withoutUsage ? { by: 'unfinished' } : { by: 'usage', cost: microDollars(this.millionths) };
  }
}
