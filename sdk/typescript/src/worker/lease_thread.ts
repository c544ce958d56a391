/** The thread that leases jobs and sends heartbeats. It has an event loop of its own, so that leases stay alive while a handler blocks the
 * one of the worker, and so do the leases of an answer that arrives meanwhile. */

import { parentPort, workerData } from 'node:worker_threads';
import { authHeaders, call, callSettings } from '../call.js';
import { BursarError, InternalError, ProblemError, readProblem } from '../errors.js';
import type { ItemsAnswerOfBeatenAnswer, LeaseBody, LeasedJobsAnswer, Order, Problem } from '../generated/api.js';
import { backoffMs } from '../random.js';
import { LeaseTable } from './lease_table.js';
import type { FromThread, LeaseKey, ThreadSettings, ToThread } from './protocol.js';

/** The timeout of a heartbeat. */
const HEARTBEAT_MS_MAX = 5_000;
/** How long a lease call in flight may go on when the worker drains. Its jobs are returned. */
const DROPPED_MS_MAX = 1_000;
/** The maximum number of heartbeats in one call. */
const ITEMS_MAX = 1_000;

if (!parentPort) throw new Error('this file runs as a thread of a worker');
const port = parentPort;
const settings = callSettings(workerData as ThreadSettings);
const table = new LeaseTable();
let timer: NodeJS.Timeout | undefined;
let beating = false;
let draining = false;
/** The lease call in flight. */
let leasing: { ended: Promise<void>; abort: AbortController } | undefined;

port.on('message', (message: ToThread) => {
  if (message.type === 'lease') startLease(message.ask);
  else if (message.type === 'drain') void drain();
  else for (const lease of message.leases) table.end(lease);
});

function tell(message: FromThread): void {
  port.postMessage(message);
}

function startLease(ask: LeaseBody): void {
  if (draining) return;
  const abort = new AbortController();
  leasing = { abort, ended: lease(ask, abort.signal).finally(() => (leasing = undefined)) };
}

async function drain(): Promise<void> {
  draining = true;
  if (leasing) {
    const { abort, ended } = leasing;
    const late = setTimeout(() => abort.abort(), DROPPED_MS_MAX);
    await ended;
    clearTimeout(late);
  }
  tell({ type: 'drained' });
}

/** Leases jobs; retries until the server answers, denies the worker, or the worker drains. */
async function lease(ask: LeaseBody, signal: AbortSignal): Promise<void> {
  for (let failures = 1; ; failures += 1) {
    try {
      const text = await leaseOnce(ask, signal);
      const { jobs } = JSON.parse(text) as LeasedJobsAnswer;
      for (const lease of table.add(jobs, performance.now())) tell({ type: 'lost', lease });
      tell({ type: 'leased', text });
      plan();
      return;
    } catch (error) {
      if (draining) return;
      if (isDenial(error)) {
        tell({ type: 'denied', problem: error.problem, message: error.message });
        return;
      }
      tell({ type: 'warn', message: `leasing jobs failed, retrying: ${messageOf(error)}` });
      await new Promise((done) => setTimeout(done, backoffMs(failures)));
      if (draining) return;
    }
  }
}

/** Makes one lease call and returns the text of its answer, which the worker parses as well. */
async function leaseOnce(ask: LeaseBody, signal: AbortSignal): Promise<string> {
  const waitMs = (ask.wait_ms ?? 0) + 15_000;
  const ended = new AbortController();
  const abort = () => ended.abort();
  signal.addEventListener('abort', abort, { once: true });
  const late = setTimeout(abort, waitMs);
  try {
    const headers = { 'content-type': 'application/json', accept: 'application/json', ...authHeaders(settings) };
    const init = { method: 'POST', headers, body: JSON.stringify(ask), signal: ended.signal, redirect: 'manual' as const };
    const response = await settings.fetch(`${settings.url}/v1/jobs/lease`, init);
    const text = await response.text();
    if (response.ok) return text;
    const problem = readProblem(response.status, text);
    throw problem ? new ProblemError(problem) : new BursarError(`status ${response.status} is not from a Bursar server`);
  } finally {
    clearTimeout(late);
    signal.removeEventListener('abort', abort);
  }
}

/** Whether the server will not accept a repeated call. An internal error may concern a single row, so it must not stop the worker. */
function isDenial(error: unknown): error is ProblemError {
  return error instanceof ProblemError && !error.transient && error.type !== 'internal' && !(error instanceof InternalError);
}

/** Plans the next heartbeats. */
function plan(): void {
  if (beating) return;
  const next = table.nextBeat();
  clearTimeout(timer);
  if (next !== undefined) timer = setTimeout(() => void beat(), Math.max(next - performance.now(), 0));
}

async function beat(): Promise<void> {
  beating = true;
  const due = table.takeDue(performance.now());
  for (let from = 0; from < due.length; from += ITEMS_MAX) await sendBeats(due.slice(from, from + ITEMS_MAX));
  beating = false;
  plan();
}

async function sendBeats(items: LeaseKey[]): Promise<void> {
  const sentAt = performance.now();
  try {
    const request = { method: 'POST', path: '/v1/jobs/heartbeat', body: { items }, idempotent: true } as const;
    // A failed call is repeated by the plan, with the leases that are due by then.
    const answer = await call<ItemsAnswerOfBeatenAnswer>(settings, request, { attempts: 1, timeoutMs: HEARTBEAT_MS_MAX });
    for (const [index, item] of answer.items.entries()) {
      const key = items[index];
      if (key && 'problem' in item) rejected(key, item.problem);
      else if (key && 'order' in item) accepted(key, item.order, sentAt);
    }
  } catch (error) {
    tell({ type: 'warn', message: `heartbeats failed, retrying: ${messageOf(error)}` });
    for (const lease of table.takeExpired(performance.now())) tell({ type: 'lost', lease });
  }
}

function accepted(key: LeaseKey, order: Order, sentAt: number): void {
  table.renewed(key, sentAt);
  if (order !== 'continue') tell({ type: 'order', lease: key, order });
}

function rejected(key: LeaseKey, problem: Problem): void {
  const error = new ProblemError(problem);
  if (error.type === 'lease-lost' || error.type === 'not-found') {
    // The end of the job is still reported, because its usage is charged.
    if (table.end(key)) tell({ type: 'lost', lease: key });
  } else {
    tell({ type: 'warn', message: `the heartbeat of ${key.id} was refused: ${error.message}` });
  }
}

function messageOf(error: unknown): string {
  const cause = error instanceof Error && error.cause instanceof Error ? `: ${error.cause.message}` : '';
  return error instanceof Error ? `${error.message}${cause}` : String(error);
}
