/** Why a call failed. One class for each problem type of the server, and one for each way in which no usable answer arrives. */

import type { Problem, ViolationAnswer } from './generated/api.js';

/** The base class of every error of this package. */
export class BursarError extends Error {
  override name = 'BursarError';

  /** Whether the same call, with the same idempotency key, may succeed later. */
  get transient(): boolean {
    return false;
  }
}

/** An argument is invalid; nothing was sent. */
export class ArgumentError extends BursarError {
  override name = 'ArgumentError';
}

/** The server could not be reached. The request was not executed. */
export class UnreachableError extends BursarError {
  override name = 'UnreachableError';

  constructor(url: string, cause: unknown) {
    const reason = `the server at ${url} cannot be reached: ${innermost(cause)}`;
    super(`${reason}; nothing was changed; check the URL, and that the server is running`, { cause });
  }

  override get transient(): boolean {
    return true;
  }
}

/** The request was sent and not answered: it may have been executed. A retry with the same key is safe. */
export class UnknownOutcomeError extends BursarError {
  override name = 'UnknownOutcomeError';

  constructor(
    /** The idempotency key of the request, if it had one. */
    readonly idempotencyKey: string | undefined,
    cause: unknown,
  ) {
    super(`unknown outcome: the request may have been executed, but no answer arrived: ${innermost(cause)}`, { cause });
  }

  override get transient(): boolean {
    return true;
  }
}

/** The answer does not have the expected form; it may come from a proxy or from another version of the server. */
export class UnreadableError extends BursarError {
  override name = 'UnreadableError';

  constructor(
    url: string,
    readonly status: number,
    detail: string,
  ) {
    super(`${url} does not answer like a Bursar server (status ${status}: ${detail}); nothing was changed; check the URL`);
  }
}

/** The server answered with a problem document. `type` is its stable name, such as `refused`. */
export class ProblemError extends BursarError {
  override name = 'ProblemError';
  readonly type: string;
  readonly status: number;
  readonly detail: string;
  /** What the caller can do in this case. */
  readonly hint: string | undefined;
  /** The field of the request that is wrong. */
  readonly field: string | undefined;
  /** The state of the hold or the job that does not allow the request. */
  readonly state: string | undefined;
  /** The scope that is unknown. */
  readonly scope: string | undefined;
  /** The hold or the job whose state does not allow the request. */
  readonly id: string | undefined;
  /** Why the signature of the request is refused: a stable word, such as `replayed`. */
  readonly reason: string | undefined;
  /** The id of the request in the server's log. */
  readonly requestId: string | undefined;
  /** An estimate of when a retry may succeed, in milliseconds from the answer. */
  readonly retryAfterMs: number | undefined;
  /** Every limit, freeze and grant that refused the request. */
  readonly violations: ViolationAnswer[];

  constructor(readonly problem: Problem) {
    super(problem.hint ? `${problem.detail}: ${problem.hint}` : problem.detail);
    this.type = wordOf(problem);
    this.status = problem.status;
    this.detail = problem.detail;
    this.hint = problem.hint ?? undefined;
    this.field = problem.field ?? undefined;
    this.state = problem.state ?? undefined;
    this.scope = problem.scope ?? undefined;
    this.id = problem.id ?? undefined;
    this.reason = problem.reason ?? undefined;
    this.requestId = problem.request_id ?? undefined;
    this.retryAfterMs = problem.retry_after_ms ?? undefined;
    this.violations = problem.violations ?? [];
  }

  override get transient(): boolean {
    return TRANSIENT.has(this.type);
  }
}

/** The request is wrong; `field` says where. */
export class InvalidError extends ProblemError {
  override name = 'InvalidError';
}

/** The request has no valid token. */
export class UnauthorizedError extends ProblemError {
  override name = 'UnauthorizedError';
}

/** The signature of the request is missing or refused; `reason` says why. */
export class SignatureRefusedError extends ProblemError {
  override name = 'SignatureRefusedError';
}

/** The role, or the worker's capabilities, do not allow the request. */
export class ForbiddenError extends ProblemError {
  override name = 'ForbiddenError';
}

/** This tenant has no such object. */
export class NotFoundError extends ProblemError {
  override name = 'NotFoundError';
}

/** The scope has no budget and the request gives no limit. */
export class UnknownScopeError extends ProblemError {
  override name = 'UnknownScopeError';
}

/** A limit, a freeze, a grant or a hold's policy refuses the request; `violations` lists every reason. */
export class RefusedError extends ProblemError {
  override name = 'RefusedError';
}

/** The hold has ended; `state` says how. */
export class AlreadySettledError extends ProblemError {
  override name = 'AlreadySettledError';
}

/** The lease has expired, or another worker has the job. */
export class LeaseLostError extends ProblemError {
  override name = 'LeaseLostError';
}

/** The current state does not allow the request, or the idempotency key was used for a different request. */
export class ConflictError extends ProblemError {
  override name = 'ConflictError';
}

/** The object has changed since it was read (`ifMatch`). */
export class ChangedError extends ProblemError {
  override name = 'ChangedError';
}

/** The request is too large. */
export class TooLargeError extends ProblemError {
  override name = 'TooLargeError';
}

/** The caller's quota has too little left. */
export class QuotaExceededError extends ProblemError {
  override name = 'QuotaExceededError';
}

/** The server cannot take the request now; nothing was changed. The client has already retried it. */
export class OverloadedError extends ProblemError {
  override name = 'OverloadedError';
}

/** A defect of the server. */
export class InternalError extends ProblemError {
  override name = 'InternalError';
}

const CLASSES: Record<string, new (problem: Problem) => ProblemError> = {
  invalid: InvalidError,
  unauthorized: UnauthorizedError,
  'signature-refused': SignatureRefusedError,
  forbidden: ForbiddenError,
  'not-found': NotFoundError,
  'unknown-scope': UnknownScopeError,
  refused: RefusedError,
  'already-settled': AlreadySettledError,
  'lease-lost': LeaseLostError,
  conflict: ConflictError,
  changed: ChangedError,
  'too-large': TooLargeError,
  'quota-exceeded': QuotaExceededError,
  overloaded: OverloadedError,
  busy: OverloadedError,
  unavailable: OverloadedError,
  'storage-unavailable': OverloadedError,
  'not-ready': OverloadedError,
  'too-many-attempts': OverloadedError,
  'too-many-bytes': OverloadedError,
  timeout: OverloadedError,
  internal: InternalError,
};

const TRANSIENT = new Set([
  'overloaded',
  'busy',
  'unavailable',
  'storage-unavailable',
  'not-ready',
  'unknown-outcome',
  'timeout',
  'too-many-attempts',
  'too-many-bytes',
]);

/** Returns the error of a problem, in the class of its type. */
export function problemError(problem: Problem): ProblemError {
  return new (CLASSES[wordOf(problem)] ?? ProblemError)(problem);
}

/** Reads the problem in the body of a failed answer. If the body is none, a proxy may have answered, and the status decides; except for a
 * status that any web server gives for a path it does not know, which returns `undefined`. */
export function readProblem(status: number, body: string): Problem | undefined {
  const parsed = parseProblem(body);
  if (parsed) return parsed;
  if (status === 404 || status === 405 || (status >= 300 && status < 400)) return undefined;
  const detail = `the server, or a proxy before it, answered with status ${status}`;
  return { type: `/problems/${wordOfStatus(status)}`, title: detail, status, detail };
}

function parseProblem(body: string): Problem | undefined {
  try {
    const value = JSON.parse(body);
    const valid = typeof value?.type === 'string' && typeof value.status === 'number' && typeof value.detail === 'string';
    return valid ? value : undefined;
  } catch {
    return undefined;
  }
}

/** Returns the last segment of the type, or what fits the status if this version does not know it. */
function wordOf(problem: Problem): string {
  const word = problem.type.split('/').pop() ?? '';
  return word || wordOfStatus(problem.status);
}

const WORDS: Record<number, string> = {
  401: 'unauthorized',
  403: 'forbidden',
  404: 'not-found',
  405: 'method-not-allowed',
  408: 'timeout',
  409: 'conflict',
  412: 'changed',
  413: 'too-large',
  415: 'unsupported-media-type',
  416: 'range-not-satisfiable',
  429: 'overloaded',
  // A proxy gave up on the server, which may have executed the request.
  502: 'unknown-outcome',
  503: 'unavailable',
  504: 'unknown-outcome',
};

function wordOfStatus(status: number): string {
  return WORDS[status] ?? (status >= 400 && status < 500 ? 'invalid' : 'internal');
}

/** Returns the message of the innermost cause: `fetch` names the reason only there. */
function innermost(error: unknown): string {
  let inner = error;
  while (inner instanceof Error && inner.cause !== undefined) inner = inner.cause;
  if (!(inner instanceof Error)) return String(inner);
  const code = (inner as { code?: unknown }).code;
  return inner.message || (typeof code === 'string' ? code : inner.name);
}
