/** The event stream, which reconnects and continues after the last event. */

import { authHeaders, type CallSettings, retryAfterMs, sleep, urlOf } from './call.js';
import { type BursarError, problemError, readProblem, UnreachableError, UnreadableError } from './errors.js';
import type { EventAnswer } from './generated/api.js';
import { backoffMs } from './random.js';
import { type SseFrame, SseParser } from './sse.js';

/** The connection is considered lost after this time without data. The server sends a comment every 15 seconds. */
const SILENCE_MS_MAX = 45_000;
/** The timeout for opening a stream. */
const OPEN_MS_MAX = 15_000;

/** A message of an event stream. */
export type BursarEvent =
  /** The subscription is active: all events after this position will follow. */
  | { type: 'ready'; position: number }
  /** Events were lost. Read the current state again. */
  | { type: 'resync' }
  /** An event of the journal. */
  | { type: 'event'; position: number; event: EventAnswer }
  /** The progress of a job: first its last report, then each further one. It has no position in the journal. */
  | { type: 'progress'; job: string; fence: number; percent: number | null; message: string | null; data: unknown }
  /** How often a limit has refused, on the channel of its budget. */
  | { type: 'refused'; data: unknown };

/** Options of `bursar.events`. */
export interface EventOptions {
  /** Continue after this position, such as `position` of an earlier stream. */
  after?: number;
  /** Ends the stream. */
  signal?: AbortSignal;
}

/** A stream of events. It reconnects when the connection is lost, and continues after the last event. It ends when its signal aborts or the
 * loop is left; it throws if the server refuses it or cannot be reached for the client's timeout. */
export class EventStream implements AsyncIterable<BursarEvent> {
  /** The position of the last event. Store it to continue after a restart. */
  position: number | undefined;

  constructor(
    private readonly settings: CallSettings,
    private readonly channels: string[],
    private readonly options: EventOptions = {},
  ) {
    this.position = options.after;
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<BursarEvent, void, undefined> {
    const { signal } = this.options;
    let attempts = 0;
    let failingSince: number | undefined;
    while (!signal?.aborted) {
      let failure: Failure;
      try {
        for await (const message of this.connection()) {
          [attempts, failingSince] = [0, undefined];
          yield message;
        }
        failure = new Failure(new UnreachableError(this.settings.url, 'the connection is lost repeatedly'), 0);
      } catch (error) {
        if (signal?.aborted) return;
        if (!(error instanceof Failure)) throw error;
        failure = error;
      }
      attempts += 1;
      failingSince ??= performance.now();
      const delay = Math.max(failure.waitMs, backoffMs(attempts));
      const over = performance.now() - failingSince + delay >= this.settings.timeoutMs;
      if (!failure.error.transient || over) throw failure.error;
      await sleep(delay, signal).catch(() => undefined);
    }
  }

  /** Yields the messages of one connection. */
  private async *connection(): AsyncGenerator<BursarEvent, void, undefined> {
    const ended = new AbortController();
    const abort = () => ended.abort(this.options.signal?.reason);
    this.options.signal?.addEventListener('abort', abort, { once: true });
    let timer = setTimeout(() => ended.abort(new Error('the event stream did not open within the timeout')), OPEN_MS_MAX);
    try {
      const body = await this.open(ended.signal);
      const parser = new SseParser();
      const decoder = new TextDecoder();
      const reader = body.getReader();
      for (;;) {
        clearTimeout(timer);
        timer = setTimeout(() => ended.abort(new Error('no data arrived')), SILENCE_MS_MAX);
        // A broken connection ends this generator, and the caller reconnects.
        const part = await reader.read().catch(() => undefined);
        if (!part || part.done) return;
        for (const frame of this.parse(parser, decoder.decode(part.value, { stream: true }))) {
          const message = messageOf(frame);
          // The position advances after parsing, so that an event that cannot be parsed is not skipped silently.
          if (frame.id !== undefined && /^\d+$/.test(frame.id)) this.position = Number(frame.id);
          if (message) yield message;
        }
      }
    } finally {
      clearTimeout(timer);
      this.options.signal?.removeEventListener('abort', abort);
      ended.abort();
    }
  }

  private parse(parser: SseParser, text: string): SseFrame[] {
    try {
      return parser.feed(text);
    } catch (error) {
      throw new UnreadableError(this.settings.url, 200, String(error));
    }
  }

  private async open(signal: AbortSignal): Promise<ReadableStream<Uint8Array>> {
    // Commas separate channels, so each channel is escaped on its own.
    const channels = this.channels.map((channel) => channel.replaceAll('%', '%25').replaceAll(',', '%2C')).join(',');
    const headers: Record<string, string> = { accept: 'text/event-stream', ...authHeaders(this.settings) };
    if (this.position !== undefined) headers['last-event-id'] = String(this.position);
    const url = urlOf(this.settings, '/v1/events', { channels: channels || undefined });
    let response: Response;
    try {
      response = await this.settings.fetch(url, { headers, signal, redirect: 'manual' });
    } catch (error) {
      throw new Failure(new UnreachableError(this.settings.url, error), 0);
    }
    if (response.ok && response.body) return response.body;
    const problem = readProblem(response.status, await response.text().catch(() => ''));
    if (!problem) throw new UnreadableError(this.settings.url, response.status, 'the answer is not a problem document');
    throw new Failure(problemError(problem), retryAfterMs(response));
  }
}

/** Why a connection failed. */
class Failure extends Error {
  constructor(
    readonly error: BursarError,
    readonly waitMs: number,
  ) {
    super(error.message);
  }
}

/** Parses a message; returns `undefined` for a type that this version does not know. */
function messageOf(frame: SseFrame): BursarEvent | undefined {
  const data = JSON.parse(frame.data);
  if (frame.event === 'ready') return { type: 'ready', position: data.position };
  if (frame.event === 'resync') return { type: 'resync' };
  if (frame.event === 'refused') return { type: 'refused', data };
  if (frame.event === 'progress') {
    const { job, fence, percent = null, message = null } = data;
    return { type: 'progress', job, fence, percent, message, data: data.data ?? null };
  }
  // Events of the journal have a position; anything else comes from a newer server.
  if (frame.id === undefined) return undefined;
  return { type: 'event', position: data.position, event: data };
}
