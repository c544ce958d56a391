/** How a handler ends without a result. Any other error is a failed attempt, which is retried as the queue's retry policy says. */

/** Why a handler must stop: the lease is lost, the job is cancelled, or the worker drains. */
export type StopReason = 'draining' | 'cancelled' | 'lost';

/** The reason of an aborted `ctx.signal`. */
export class StopError extends Error {
  override name = 'StopError';

  constructor(readonly reason: StopReason) {
    super(MESSAGES[reason]);
  }
}

const MESSAGES: Record<StopReason, string> = {
  draining: 'the worker shuts down',
  cancelled: 'the job was cancelled',
  lost: 'the lease is lost: another worker may have the job',
};

/** The attempt failed, and another cannot succeed: the job is dead. */
export class NonRetryableError extends Error {
  override name = 'NonRetryableError';
  /** The kind of the error, by which dead jobs are grouped. */
  readonly kind: string;

  constructor(message: string, options: { kind?: string; cause?: unknown } = {}) {
    super(message, { cause: options.cause });
    this.kind = options.kind ?? 'NonRetryableError';
  }
}

/** The attempt failed; the job is retried after this time instead of the delay of its policy. */
export class RetryAfter extends Error {
  override name = 'RetryAfter';
  readonly kind: string;

  constructor(
    readonly delayMs: number,
    message = 'the handler asked for a later attempt',
    options: { kind?: string; cause?: unknown } = {},
  ) {
    super(message, { cause: options.cause });
    this.kind = options.kind ?? 'RetryAfter';
  }
}

/** The job runs again after this time, and the attempt does not count, unless the handler has reported usage. */
export class Snooze extends Error {
  override name = 'Snooze';

  constructor(readonly delayMs: number) {
    super(`snoozed for ${delayMs} ms`);
  }
}
