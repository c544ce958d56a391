/** A `fetch` that holds every model call before it is sent. Wrapping at this level covers everything that a provider's package sends: retries,
 * streams, helpers and parallel calls. */

import { BursarError } from '../errors.js';
import { Meter, type MeteredCall, type MeterOptions, type PartialUsage } from './meter.js';
import { tapEvents } from './sse_tap.js';

/** What a provider's wire format says about a request. */
export interface Plan {
  model: string;
  inputTokens: number;
  outputTokens: number;
  extra?: number;
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

/** The header of a refusal, by which `refusalOf` finds the error. */
export const REFUSAL_HEADER = 'x-bursar-refusal';

const REFUSALS = new Map<string, Error>();
let refusals = 0;

/** Returns a `fetch` that meters the calls of a wire format. */
export function meterFetch(wire: Wire, options: MeterOptions, inner: typeof fetch): typeof fetch {
  const meter = new Meter(options);
  return async (input, init) => {
    const url = new URL(input instanceof Request ? input.url : String(input));
    const method = (init?.method ?? (input instanceof Request ? input.method : 'GET')).toUpperCase();
    let plan: Plan | undefined;
    let call: MeteredCall;
    try {
      plan = wire(method, url.pathname, bodyOf(init?.body), meter);
      if (!plan) return inner(input, init);
      call = await meter.begin(plan, init?.signal);
    } catch (error) {
      init?.signal?.throwIfAborted();
      // Thrown, the package would take it for a broken connection and retry it.
      return refusalResponse(error);
    }
    let response: Response;
    try {
      response = await inner(input, { ...init, body: JSON.stringify(plan.body) });
    } catch (error) {
      await call.failed(error);
      throw error;
    }
    return settleWith(response, call, plan.usage, init?.signal ?? undefined);
  };
}

/** Settles a call by its response, now or when its stream ends. */
async function settleWith(response: Response, call: MeteredCall, usage: UsageReader, signal: AbortSignal | undefined): Promise<Response> {
  // Providers do not bill a request that they answer with an error.
  if (!response.ok) {
    await call.notRun();
    return response;
  }
  const headers = new Headers(response.headers);
  // The body below is decoded already.
  for (const name of ['content-encoding', 'content-length']) headers.delete(name);
  const head = { status: response.status, statusText: response.statusText, headers };
  if (response.body && headers.get('content-type')?.includes('text/event-stream')) {
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
  try {
    usage.answer(JSON.parse(text));
  } catch {
    // Not JSON: the usage stays unknown, and the bound is charged.
  }
  await call.ended(usage.result());
  return new Response(text, head);
}

function bodyOf(body: RequestInit['body'] | undefined): unknown {
  if (typeof body !== 'string') return undefined;
  try {
    return JSON.parse(body);
  } catch {
    return undefined;
  }
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
export function wrapClient<C extends object>(client: C, wire: Wire, options: MeterOptions): C {
  const { withOptions, fetch: own } = client as unknown as ProviderClient & { fetch?: typeof fetch };
  const inner: typeof fetch = own ?? ((input, init) => globalThis.fetch(input, init));
  const wrapped = withOptions.call(client, { fetch: meterFetch(wire, options, (input, init) => inner(input, init)) }) as C;
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
