/** One call: attempts until the server answers, a retry is not safe, or the timeout is over. */

import { ArgumentError, type ProblemError, problemError, readProblem, UnknownOutcomeError, UnreachableError, UnreadableError } from './errors.js';
import { backoffMs, randomKey } from './random.js';
import { type Signer, signedFetch } from './signing.js';

/** The timeout of one attempt, in milliseconds; the time that the server may wait for jobs is added. */
const ATTEMPT_MS_MAX = 15_000;
/** The default timeout of a call with all its attempts. */
const TIMEOUT_MS = 30_000;
/** The default number of attempts of a call. */
const ATTEMPTS_MAX = 20;

/** Options of one call. */
export interface CallOptions {
  /** The key of this write: a retry with the same key returns the first answer and changes nothing. Default: a random key per call. Set it if
   * your program may restart between tries. */
  idempotencyKey?: string;
  /** Change a definition only if it still has this ETag; see `responseMeta`. */
  ifMatch?: string;
  /** How long the call may take with all its attempts; default: the client's setting, 30 seconds. */
  timeoutMs?: number;
  /** How many attempts are made; default: the client's setting, 20. With 1, no idempotency key is made. */
  attempts?: number;
  /** Aborts the call. A write that was sent may have been executed. */
  signal?: AbortSignal;
}

/** Settings that all calls of a client share. */
export interface CallSettings {
  url: string;
  token: string | undefined;
  tenant: string | undefined;
  timeoutMs: number;
  attempts: number;
  fetch: typeof fetch;
}

/** A request. */
export interface Request {
  method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  path: string;
  query?: Record<string, string | number | boolean | null | undefined> | undefined;
  body?: unknown;
  /** A body that is JSON text already, in place of `body`. */
  text?: string;
  /** A body of bytes, in place of `body`. */
  raw?: { body: Uint8Array | Blob | ReadableStream<Uint8Array>; headers: Record<string, string> };
  /** Further headers. */
  headers?: Record<string, string>;
  /** The call is idempotent and needs no key. */
  idempotent?: boolean;
  /** How long the server may wait before it answers, in milliseconds. */
  waitsMs?: number;
}

/** What the headers of an answer say. */
export interface ResponseMeta {
  /** The ETag of the definition, for `ifMatch`. */
  etag: string | undefined;
  /** Whether this is the answer to an earlier request with the same idempotency key. */
  replayed: boolean;
}

const METAS = new WeakMap<object, ResponseMeta>();

/** Returns the ETag of an answer, and whether it was replayed. */
export function responseMeta(answer: object): ResponseMeta {
  return METAS.get(answer) ?? { etag: undefined, replayed: false };
}

export function callSettings(options: {
  url: string;
  token?: string;
  tenant?: string;
  timeoutMs?: number;
  attempts?: number;
  fetch?: typeof fetch;
  signer?: Signer;
}): CallSettings {
  let parsed: URL;
  try {
    parsed = new URL(options.url);
  } catch {
    throw new ArgumentError(`url: ${JSON.stringify(options.url)} is not a URL`);
  }
  if (!['http:', 'https:'].includes(parsed.protocol)) throw new ArgumentError('url: must begin with http:// or https://');
  if (parsed.username || parsed.password) throw new ArgumentError('url: must not contain a user');
  if (parsed.search || parsed.hash) throw new ArgumentError('url: must not have a query');
  if (options.token !== undefined && !/^[\x21-\x7e]+$/.test(options.token)) {
    throw new ArgumentError('token: has characters that are not allowed in an HTTP header');
  }
  const plain: typeof fetch = options.fetch ?? ((input, init) => globalThis.fetch(input, init));
  const settings: CallSettings = {
    url: options.url.replace(/\/+$/, ''),
    token: undefined,
    tenant: options.tenant,
    timeoutMs: options.timeoutMs ?? TIMEOUT_MS,
    attempts: options.attempts ?? ATTEMPTS_MAX,
    fetch: options.signer ? signedFetch(options.signer, plain) : plain,
  };
  // Not enumerable, so that printing a client does not print its token.
  Object.defineProperty(settings, 'token', { value: options.token, enumerable: false });
  return settings;
}

/** Returns the URL of a request. */
export function urlOf(settings: CallSettings, path: string, query: Request['query']): string {
  const parts = new URLSearchParams();
  for (const [name, value] of Object.entries(query ?? {})) {
    if (value !== undefined && value !== null) parts.set(name, String(value));
  }
  const text = parts.toString();
  return `${settings.url}${path}${text ? `?${text}` : ''}`;
}

/** Returns the headers that authenticate a request. */
export function authHeaders(settings: CallSettings): Record<string, string> {
  const headers: Record<string, string> = {};
  if (settings.token !== undefined) headers.authorization = `Bearer ${settings.token}`;
  if (settings.tenant !== undefined) headers['bursar-tenant'] = settings.tenant;
  return headers;
}

/** Makes a call and returns the parsed answer; `undefined` if it has no body. */
export function call<T>(settings: CallSettings, request: Request, options: CallOptions = {}): Promise<T> {
  return send(settings, request, options, async (response) => answerOf<T>(response, await response.text()));
}

/** Makes a call and returns the answer when its head has arrived. `statuses` are answers that are no problem, apart from those of success. */
export function open(settings: CallSettings, request: Request, options: CallOptions = {}, statuses: number[] = []): Promise<Response> {
  return send(settings, request, options, async (response) => {
    if (response.ok || statuses.includes(response.status)) return response;
    throw problemOf(response, await response.text());
  });
}

async function send<T>(settings: CallSettings, request: Request, options: CallOptions, read: (response: Response) => Promise<T>): Promise<T> {
  const attemptsMax = options.attempts ?? settings.attempts;
  const key = keyOf(request, options, attemptsMax);
  const init = initOf(settings, request, options, key);
  const url = urlOf(settings, request.path, request.query);
  const waitsMs = request.waitsMs ?? 0;
  const deadline = performance.now() + (options.timeoutMs ?? settings.timeoutMs) + waitsMs;
  const repeatable = key !== undefined || request.idempotent === true || request.method === 'GET';
  for (let attempts = 1; ; attempts += 1) {
    options.signal?.throwIfAborted();
    const timeoutMs = Math.min(deadline - performance.now(), ATTEMPT_MS_MAX + waitsMs);
    let failure: AttemptError;
    try {
      return await attempt(settings, url, init, timeoutMs, options.signal, read);
    } catch (error) {
      options.signal?.throwIfAborted();
      if (!(error instanceof AttemptError)) throw error;
      failure = error;
    }
    const delay = retryDelayMs(failure, attempts, repeatable);
    if (delay === undefined || attempts >= attemptsMax || performance.now() + delay >= deadline) {
      throw finalError(settings, request, failure, key);
    }
    await sleep(delay, options.signal);
  }
}

function keyOf(request: Request, options: CallOptions, attemptsMax: number): string | undefined {
  if (request.method === 'GET' || request.idempotent) return undefined;
  if (options.idempotencyKey !== undefined) return options.idempotencyKey;
  return attemptsMax > 1 ? randomKey() : undefined;
}

function initOf(settings: CallSettings, request: Request, options: CallOptions, key: string | undefined): RequestInit {
  const headers: Record<string, string> = { accept: 'application/json', ...authHeaders(settings), ...request.headers };
  if (key !== undefined) headers['idempotency-key'] = key;
  if (options.ifMatch !== undefined && request.method !== 'GET') headers['if-match'] = options.ifMatch;
  const init: RequestInit & { duplex?: 'half' } = { method: request.method, headers, redirect: 'manual' };
  if (request.raw) {
    Object.assign(headers, request.raw.headers);
    init.body = request.raw.body as BodyInit;
    // Required for a stream: the answer is read after the whole body was sent.
    init.duplex = 'half';
    return init;
  }
  const body = request.text ?? (request.body === undefined ? undefined : JSON.stringify(request.body));
  if (body !== undefined) {
    headers['content-type'] = 'application/json';
    init.body = body;
  }
  return init;
}

/** Why an attempt failed. */
class AttemptError extends Error {
  constructor(
    readonly kind: 'problem' | 'transport' | 'unreadable',
    readonly error: unknown,
    /** Whether the request may have reached the server. */
    readonly sent: boolean,
    readonly waitMs = 0,
    readonly status = 0,
  ) {
    super('an attempt failed');
  }
}

async function attempt<T>(
  settings: CallSettings,
  url: string,
  init: RequestInit,
  timeoutMs: number,
  signal: AbortSignal | undefined,
  read: (response: Response) => Promise<T>,
): Promise<T> {
  const ended = new AbortController();
  const abort = () => ended.abort(signal?.reason);
  signal?.addEventListener('abort', abort, { once: true });
  const late = new Error('no answer arrived within the timeout');
  const timer = setTimeout(() => ended.abort(late), Math.max(timeoutMs, 0));
  try {
    const answer = await read(await settings.fetch(url, { ...init, signal: ended.signal }));
    // The body of a response is still to be read, and the signal aborts that too.
    if (!(answer instanceof Response)) signal?.removeEventListener('abort', abort);
    return answer;
  } catch (error) {
    signal?.removeEventListener('abort', abort);
    if (error instanceof AttemptError) throw error;
    throw new AttemptError('transport', ended.signal.aborted ? ended.signal.reason : error, wasSent(error));
  } finally {
    clearTimeout(timer);
  }
}

/** Returns why the server did not do what a request asked for. */
function problemOf(response: Response, text: string): AttemptError {
  const problem = readProblem(response.status, text);
  if (!problem) return new AttemptError('unreadable', 'the answer is not a problem document', true, 0, response.status);
  return new AttemptError('problem', problemError(problem), true, retryAfterMs(response), response.status);
}

function answerOf<T>(response: Response, text: string): T {
  if (!response.ok) throw problemOf(response, text);
  if (text === '') return undefined as T;
  let answer: T;
  try {
    answer = JSON.parse(text);
  } catch (error) {
    throw new AttemptError('unreadable', String(error), true, 0, response.status);
  }
  if (typeof answer === 'object' && answer !== null) {
    const replayed = response.headers.has('idempotent-replayed');
    METAS.set(answer, { etag: response.headers.get('etag') ?? undefined, replayed });
  }
  return answer;
}

/** Reads `Retry-After` in seconds. A date is ignored, because the clocks of client and server may differ. */
export function retryAfterMs(response: Response): number {
  const header = response.headers.get('retry-after');
  return header !== null && /^\d+$/.test(header) ? Number(header) * 1_000 : 0;
}

/** Returns how long to wait before the next attempt; `undefined` if a retry is useless or not safe. */
function retryDelayMs(failure: AttemptError, attempts: number, repeatable: boolean): number | undefined {
  if (failure.kind === 'unreadable') return undefined;
  if (failure.kind === 'transport') return repeatable || !failure.sent ? backoffMs(attempts) : undefined;
  const problem = failure.error as ProblemError;
  const safe = repeatable || problem.type !== 'unknown-outcome';
  return problem.transient && safe ? Math.max(failure.waitMs, backoffMs(attempts)) : undefined;
}

function finalError(settings: CallSettings, request: Request, failure: AttemptError, key: string | undefined): unknown {
  if (failure.kind === 'unreadable') return new UnreadableError(settings.url, failure.status, String(failure.error));
  if (failure.kind === 'transport') {
    const unknown = failure.sent && request.method !== 'GET';
    return unknown ? new UnknownOutcomeError(key, failure.error) : new UnreachableError(settings.url, failure.error);
  }
  const error = failure.error as ProblemError;
  return error.type === 'unknown-outcome' ? new UnknownOutcomeError(key, error) : error;
}

/** Codes of errors before a connection exists, so that nothing was sent. */
const NOT_SENT = new Set(['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN', 'EHOSTUNREACH', 'ENETUNREACH', 'UND_ERR_CONNECT_TIMEOUT', 'ConnectionRefused']);

function wasSent(error: unknown): boolean {
  for (let inner = error; inner instanceof Error; inner = inner.cause) {
    const code = (inner as { code?: unknown }).code;
    if (typeof code === 'string' && NOT_SENT.has(code)) return false;
    if (inner instanceof AggregateError && inner.errors.length > 0) return inner.errors.some(wasSent);
  }
  return true;
}

/** Waits; rejects if the signal aborts. */
export function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason);
    const done = () => {
      signal?.removeEventListener('abort', abort);
      resolve();
    };
    const timer = setTimeout(done, ms);
    const abort = () => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    signal?.addEventListener('abort', abort, { once: true });
  });
}

/** Escapes a name for a path. */
export function segment(name: string): string {
  if (name === '') throw new ArgumentError('a name in a path must not be empty');
  // A URL parser removes these, even escaped, and would send the request to another path.
  if (name === '.' || name === '..') throw new ArgumentError(`the name ${JSON.stringify(name)} cannot be in a path`);
  return encodeURIComponent(name);
}
