/** A `fetch` that holds every model call before it is sent. Wrapping at this level covers everything that a provider's package sends: retries,
 * streams, helpers and parallel calls. */

import { BursarError } from '../errors.js';
import { parsed } from './json.js';
import { Meter, type MeteredCall, type MeterOptions, type PartialUsage } from './meter.js';
import { tapEvents } from './sse_tap.js';

/** What a provider's wire format says about a request. */
export interface Plan {
  model: string;
  inputTokens: number;
  outputTokens: number;
  extra?: number;
  /** Whether the request itself limits its output tokens, or has none. */
  limited: boolean;
  /** The body to send, with a maximum of output tokens. */
  body: unknown;
  /** Reads the usage of the answer. */
  usage: UsageReader;
}

/** Reads the usage of an answer, from its JSON or from its events. */
export interface UsageReader {
  /** Reads a whole answer. */
  answer(body: unknown): void;
  /** Reads an event; returns `false` to keep it from the caller. */
  event(data: unknown): boolean;
  /** Returns what is known of the usage. */
  result(): PartialUsage;
}

/** The wire format of a provider. Returns `undefined` for a request that costs nothing; throws for one that has no bound. */
export type Wire = (method: string, path: string, body: unknown, meter: Meter) => Plan | undefined;

/** A request of a provider's package. */
export interface WireRequest {
  method: string;
  url: URL;
  /** Its JSON; `undefined` if it has none. */
  body: unknown;
  signal: AbortSignal | undefined;
  /** Reads a file of the provider, with the headers of this request. */
  read(url: URL): Promise<Response>;
}

/** What a wrapper does with a request that it lets through. */
export interface Passage {
  /** The body to send in place of that of the request. */
  body?: unknown;
  /** Returns the answer for the caller. */
  answered(response: Response): Promise<Response>;
  /** No answer arrived. */
  failed?(error: unknown): Promise<void>;
}

/** The requests about batches of a provider. */
export interface BatchRequests {
  /** Returns what to do with a request, `undefined` if it is not about batches; throws for a batch that is refused. */
  admit(request: WireRequest): Promise<Passage | undefined>;
}

/** What `meterFetch` knows of a provider. */
export interface WireFormat {
  wire: Wire;
  batches(meter: Meter): BatchRequests;
}

/** The header of a refusal, by which `refusalOf` finds the error. */
export const REFUSAL_HEADER = 'x-bursar-refusal';

const REFUSALS = new Map<string, Error>();
let refusals = 0;

/** Returns a `fetch` that meters the calls of a wire format. */
export function meterFetch(format: WireFormat, options: MeterOptions, inner: typeof fetch): typeof fetch {
  const meter = new Meter(options);
  const batches = format.batches(meter);
  return async (input, init) => {
    const request = requestOf(input, init, inner);
    let passage: Passage | undefined;
    try {
      passage = (await batches.admit(request)) ?? (await admitCall(format.wire, request, meter));
    } catch (error) {
      request.signal?.throwIfAborted();
      // Thrown, the package would take it for a broken connection and retry it.
      return refusalResponse(error);
    }
    if (!passage) return inner(input, init);
    let response: Response;
    try {
      response = await inner(input, passage.body === undefined ? init : { ...init, body: JSON.stringify(passage.body) });
    } catch (error) {
      await passage.failed?.(error);
      throw error;
    }
    return passage.answered(response);
  };
}

function requestOf(input: Parameters<typeof fetch>[0], init: RequestInit | undefined, inner: typeof fetch): WireRequest {
  const request = input instanceof Request ? input : undefined;
  return {
    method: (init?.method ?? request?.method ?? 'GET').toUpperCase(),
    url: new URL(request?.url ?? String(input)),
    body: typeof init?.body === 'string' ? parsed(init.body) : undefined,
    signal: init?.signal ?? undefined,
    read(url) {
      const headers = new Headers(init?.headers ?? request?.headers);
      for (const name of ['content-type', 'content-length', 'idempotency-key']) headers.delete(name);
      headers.set('accept', 'application/binary');
      return inner(url, { ...init, method: 'GET', body: null, headers });
    },
  };
}

/** Holds a model call; returns `undefined` for a request that costs nothing. */
async function admitCall(wire: Wire, { method, url, body, signal }: WireRequest, meter: Meter): Promise<Passage | undefined> {
  const plan = wire(method, url.pathname, body, meter);
  if (!plan) return undefined;
  const call = await meter.begin(plan, signal);
  return {
    body: plan.body,
    answered: (response) => settleWith(response, call, plan.usage, signal),
    failed: (error) => call.failed(error),
  };
}

/** Settles a call by its response, now or when its stream ends. */
async function settleWith(response: Response, call: MeteredCall, usage: UsageReader, signal: AbortSignal | undefined): Promise<Response> {
  // Providers do not bill a request that they answer with an error.
  if (!response.ok) {
    await call.notRun();
    return response;
  }
  const head = headOf(response);
  if (response.body && head.headers.get('content-type')?.includes('text/event-stream')) {
    const ended = () => call.ended(usage.result());
    // A caller that aborts may never read the stream again.
    signal?.addEventListener('abort', () => void ended(), { once: true });
    return new Response(
      tapEvents(response.body, (data) => usage.event(data), ended),
      head,
    );
  }
  let text: string;
  try {
    text = await response.text();
  } catch (error) {
    await call.ended(usage.result());
    throw error;
  }
  // Without JSON the usage stays unknown, and the bound is charged.
  usage.answer(parsed(text));
  await call.ended(usage.result());
  return new Response(text, head);
}

/** Returns the head of a response for a body that is decoded already. */
export function headOf(response: Response): { status: number; statusText: string; headers: Headers } {
  const headers = new Headers(response.headers);
  for (const name of ['content-encoding', 'content-length']) headers.delete(name);
  return { status: response.status, statusText: response.statusText, headers };
}

/** Returns an answer that the packages of the providers neither retry nor take for a broken connection. */
function refusalResponse(error: unknown): Response {
  const cause = error instanceof Error ? error : new BursarError(String(error));
  refusals += 1;
  const id = String(refusals);
  REFUSALS.set(id, cause);
  // Bounded, because a caller may never look at the error.
  if (REFUSALS.size > 1_000) REFUSALS.delete(REFUSALS.keys().next().value as string);
  const body = { error: { type: 'bursar_refused', code: 'bursar_refused', message: cause.message }, type: 'error' };
  const headers = { 'content-type': 'application/json', 'x-should-retry': 'false', [REFUSAL_HEADER]: id };
  return new Response(JSON.stringify(body), { status: 402, statusText: 'Payment Required', headers });
}

/** Returns the refusal behind an error of a provider's package, if Bursar refused the call. */
export function refusalOf(error: unknown): Error | undefined {
  for (let inner = error; inner instanceof Error; inner = inner.cause) {
    if (inner instanceof BursarError) return inner;
    const { headers } = inner as { headers?: unknown };
    const id = headers instanceof Headers ? headers.get(REFUSAL_HEADER) : (headers as Record<string, string> | undefined)?.[REFUSAL_HEADER];
    if (typeof id === 'string') return REFUSALS.get(id);
  }
  return undefined;
}

/** A client of a provider's package, as far as a wrapper uses it. */
export interface ProviderClient {
  withOptions(options: Record<string, unknown>): unknown;
}

/** Returns a copy of a provider's client that sends its requests with a metered `fetch`, and throws refusals as they are. */
export function wrapClient<C extends object>(client: C, format: WireFormat, options: MeterOptions): C {
  const { withOptions, fetch: own } = client as unknown as ProviderClient & { fetch?: typeof fetch };
  const inner: typeof fetch = own ?? ((input, init) => globalThis.fetch(input, init));
  const wrapped = withOptions.call(client, { fetch: meterFetch(format, options, (input, init) => inner(input, init)) }) as C;
  throwRefusals(wrapped);
  return wrapped;
}

/** Makes a client throw the refusal itself, in place of an error that describes the status 402. */
function throwRefusals(client: object): void {
  const own = client as { makeStatusError?: (...args: [number, unknown, unknown, Headers]) => Error };
  const original = own.makeStatusError;
  if (typeof original !== 'function') return;
  const replaced = (...args: [number, unknown, unknown, Headers]) => {
    const error = original.apply(client, args);
    return refusalOf(Object.assign(new Error(), { headers: args[3] })) ?? error;
  };
  Object.defineProperty(client, 'makeStatusError', { value: replaced, enumerable: false });
}
