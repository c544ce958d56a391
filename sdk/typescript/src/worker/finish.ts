/** The end of a lease, as the report that the server gets. */

import type { ReportRoute } from '../api/work.js';
import type { LeasedAnswer, Usage } from '../generated/api.js';
import type { JobContext } from './context.js';
import { NonRetryableError, RetryAfter, Snooze } from './outcome.js';
import type { LeaseKey } from './protocol.js';

/** The maximum size of a result. */
const RESULT_BYTES_MAX = 1 << 20;
/** The maximum size of the texts of an error. */
const ERROR_BYTES_MAX = 4_096;
/** The longest delay of a job: ten years. */
const DELAY_MS_MAX = 316_224_000_000;

/** The end of a lease. */
export interface Finish {
  lease: LeaseKey;
  route: ReportRoute;
  /** The item of the report, as JSON. */
  text: string;
}

/** The job succeeded. A result that cannot be stored makes the job dead. */
export function completed(job: LeasedAnswer, ctx: JobContext, result: unknown): Finish {
  let text: string | undefined;
  try {
    text = JSON.stringify(result) ?? 'null';
  } catch (error) {
    return failed(job, ctx, new NonRetryableError(`the result is not JSON: ${error}`, { kind: 'result' }));
  }
  // A character has at most three bytes in UTF-8.
  if (text.length > RESULT_BYTES_MAX / 3 && new TextEncoder().encode(text).length > RESULT_BYTES_MAX) {
    return failed(job, ctx, new NonRetryableError(`the result has more than ${RESULT_BYTES_MAX} bytes`, { kind: 'result' }));
  }
  const usage = ctx.reported();
  const lease = keyOf(job);
  const blobs = ctx.storedBlobs();
  const head = JSON.stringify({ ...lease, usage, blobs: blobs.length > 0 ? blobs : undefined });
  return { lease, route: 'complete', text: `${head.slice(0, -1)},"result":${text}}` };
}

/** The handler threw an error. */
export function failed(job: LeasedAnswer, ctx: JobContext, error: unknown): Finish {
  const usage = ctx.reported();
  if (error instanceof Snooze) {
    const delay_ms = delayMs(error.delayMs);
    if (usage === undefined) return finish(job, 'snooze', { delay_ms });
    // A snooze carries no usage, so an attempt that has spent units is reported as failed.
    const message = 'the handler snoozed the job after it had reported usage';
    return failure(job, 'snoozed', message, { retry_after_ms: delay_ms, usage });
  }
  if (error instanceof NonRetryableError) return failure(job, error.kind, messageOf(error), { retryable: false, usage });
  if (error instanceof RetryAfter) {
    return failure(job, error.kind, messageOf(error), { retry_after_ms: delayMs(error.delayMs), usage });
  }
  return failure(job, error instanceof Error ? error.name : typeof error, messageOf(error), { usage });
}

/** The handler did not stop within its grace period. Returns `undefined` if the lease is lost and nothing was spent. */
export function overdue(job: LeasedAnswer, ctx: JobContext): Finish | undefined {
  const usage = ctx.reported();
  const message = 'the handler did not stop within its grace period';
  if (ctx.stop === 'cancelled') return failure(job, 'cancelled', message, { usage });
  if (ctx.stop === 'draining') {
    return usage === undefined ? returned(job) : failure(job, 'drained', message, { retry_after_ms: 0, usage });
  }
  // The result is discarded, but spent units are still charged.
  return usage === undefined ? undefined : failure(job, 'lease lost', message, { usage });
}

/** The job goes back to its queue; the attempt does not count. */
export function returned(job: LeasedAnswer): Finish {
  return finish(job, 'return', {});
}

/** A rule has refused the report of a job, which happens for wrong usage. A retry would be refused again, so the job is dead. */
export function refused(lease: LeaseKey, why: string): Finish {
  const error = { kind: 'report refused', message: cut(why) };
  return { lease, route: 'fail', text: JSON.stringify({ ...lease, error, retryable: false }) };
}

interface FailureFields {
  retryable?: boolean;
  retry_after_ms?: number;
  usage?: Usage[] | undefined;
}

function failure(job: LeasedAnswer, kind: string, message: string, more: FailureFields): Finish {
  return finish(job, 'fail', { error: { kind: cut(kind) || 'error', message: cut(message) }, ...more });
}

function finish(job: LeasedAnswer, route: ReportRoute, fields: object): Finish {
  const lease = keyOf(job);
  return { lease, route, text: JSON.stringify({ ...lease, ...fields }) };
}

export function keyOf(job: LeasedAnswer): LeaseKey {
  return { id: job.id, fence: job.lease?.fence ?? 0 };
}

/** Returns the message of an error with those of its causes. */
function messageOf(error: unknown): string {
  if (!(error instanceof Error)) return typeof error === 'string' ? error : (JSON.stringify(error) ?? String(error));
  return error.cause instanceof Error ? `${error.message}: ${messageOf(error.cause)}` : error.message;
}

function delayMs(ms: number): number {
  return Number.isFinite(ms) ? Math.min(Math.max(Math.round(ms), 0), DELAY_MS_MAX) : DELAY_MS_MAX;
}

/** Cuts a text to the maximum length of a report. */
function cut(text: string): string {
  const bytes = new TextEncoder().encode(text);
  if (bytes.length <= ERROR_BYTES_MAX) return text;
  // A character that was cut in two becomes a replacement character, which is removed.
  return new TextDecoder().decode(bytes.slice(0, ERROR_BYTES_MAX)).replace(/\uFFFD$/, '');
}
