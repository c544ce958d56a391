/** A client for the HTTP API of a Bursar server, and workers for its jobs. */

export { Credentials, Grants, type Keys, Meter, type Workers } from './api/access.js';
export { type BlobBody, BlobContent, Blobs, Namespaces, type PutOptions } from './api/blobs.js';
export { Budgets, type Period } from './api/budgets.js';
export { Commands, type HoldRequest, Holds } from './api/holds.js';
export { Dead, type JobQuery, Jobs } from './api/jobs.js';
export { Journal, type JournalQuery } from './api/journal.js';
export { type Figures, Queues, Schedules } from './api/queues.js';
export type { ListOptions, PastOptions, ReasonOptions } from './api/resource.js';
export { Work } from './api/work.js';
export { type CallOptions, type ResponseMeta, responseMeta } from './call.js';
export { Bursar, type BursarOptions } from './client.js';
export {
  AlreadySettledError,
  ArgumentError,
  BursarError,
  ChangedError,
  ConflictError,
  ForbiddenError,
  InternalError,
  InvalidError,
  LeaseLostError,
  NotFoundError,
  OverloadedError,
  ProblemError,
  QuotaExceededError,
  RefusedError,
  SignatureRefusedError,
  TooLargeError,
  UnauthorizedError,
  UnknownOutcomeError,
  UnknownScopeError,
  UnreachableError,
  UnreadableError,
} from './errors.js';
export { type BursarEvent, type EventOptions, EventStream } from './events.js';
export type * as wire from './generated/api.js';
export { Hold, type HoldOptions, HoldSettledError } from './hold.js';
export { List, type Page } from './page.js';
export { type SignedParts, Signer, signedFetch } from './signing.js';
export { type Job, JobContext, type Progress } from './worker/context.js';
export { NonRetryableError, RetryAfter, Snooze, StopError, type StopReason } from './worker/outcome.js';
export type { WorkerReport } from './worker/reports.js';
export type { RunningWorker } from './worker/run.js';
export type { StandardSchema } from './worker/schema.js';
export { createWorker, type Handler, Worker, type WorkerOptions } from './worker/worker.js';
