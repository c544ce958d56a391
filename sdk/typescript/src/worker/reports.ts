/** Reports of ended leases: gathered into as few calls as possible, and retried until the server takes them. */

import type { ReportRoute, Work } from '../api/work.js';
import { sleep } from '../call.js';
import { BursarError, type ProblemError, problemError } from '../errors.js';
import type { FinishedAnswer, Problem } from '../generated/api.js';
import { backoffMs } from '../random.js';
import { type Finish, refused } from './finish.js';
import type { LeaseKey } from './protocol.js';

/** The number of report calls in flight. */
const CALLS = 2;
/** The maximum number of reports in one call. */
const ITEMS_MAX = 1_000;
/** The size of one call, in characters, below the maximum size of a request. */
const CALL_LENGTH_MAX = 24 << 20;
/** How long reports are retried, because they have what was spent. */
const RETRY_MS_MAX = 15 * 60_000;
/** Above this number of waiting reports the worker starts no more handlers. */
const WAITING_MAX = 2 * ITEMS_MAX;

/** The counts of ended jobs of a worker. */
export interface WorkerReport {
  /** Jobs that were completed. */
  completed: number;
  /** Attempts that failed. */
  failed: number;
  /** Jobs that were snoozed. */
  snoozed: number;
  /** Jobs that were returned without a result. */
  returned: number;
  /** Jobs whose end was not accepted, because the lease was lost or the report could not be delivered. */
  lost: number;
}

const COUNTS: Record<ReportRoute, keyof WorkerReport> = { complete: 'completed', fail: 'failed', snooze: 'snoozed', return: 'returned' };

/** What the worker is told. */
export interface ReportListener {
  /** These leases have ended. */
  ended(leases: LeaseKey[]): void;
  log(message: string): void;
}

export class Reports {
  readonly counts: WorkerReport = { completed: 0, failed: 0, snoozed: 0, returned: 0, lost: 0 };
  private waiting: Finish[] = [];
  private calls = 0;
  private scheduled = false;
  private idle: (() => void)[] = [];
  /** How long reports are retried from now on. */
  private retryMsMax = RETRY_MS_MAX;

  constructor(
    private readonly work: Work,
    private readonly listener: ReportListener,
  ) {}

  /** Whether so many reports wait that no more handlers should start. */
  get full(): boolean {
    return this.waiting.length >= WAITING_MAX;
  }

  send(finish: Finish): void {
    this.waiting.push(finish);
    if (this.scheduled || this.calls >= CALLS) return;
    this.scheduled = true;
    // Reports of handlers that end in the same turn of the event loop share a call.
    setImmediate(() => {
      this.scheduled = false;
      this.flush();
    });
  }

  /** Limits how long reports are retried, because the worker drains. */
  drain(graceMs: number): void {
    this.retryMsMax = Math.min(this.retryMsMax, graceMs);
  }

  /** Waits until all reports are sent. */
  async settled(): Promise<void> {
    while (this.waiting.length > 0 || this.calls > 0) await new Promise<void>((done) => this.idle.push(done));
  }

  private flush(): void {
    while (this.calls < CALLS && this.waiting.length > 0) {
      this.calls += 1;
      const batch = this.takeBatch();
      void this.report(batch).finally(() => {
        this.calls -= 1;
        this.flush();
        for (const done of this.idle.splice(0)) done();
      });
    }
  }

  private takeBatch(): Finish[] {
    let length = 0;
    let count = 0;
    for (const { text } of this.waiting) {
      if (count > 0 && (count >= ITEMS_MAX || length + text.length > CALL_LENGTH_MAX)) break;
      length += text.length;
      count += 1;
    }
    return this.waiting.splice(0, count);
  }

  private async report(items: Finish[]): Promise<void> {
    const routes = new Map<ReportRoute, Finish[]>();
    for (const item of items) {
      const group = routes.get(item.route);
      if (group) group.push(item);
      else routes.set(item.route, [item]);
    }
    await Promise.all([...routes].map(([route, group]) => this.reportGroup(route, group)));
  }

  private async reportGroup(route: ReportRoute, group: Finish[]): Promise<void> {
    let answers: (FinishedAnswer | { problem: Problem })[];
    try {
      answers = await this.call(route, group);
    } catch (error) {
      // The call may have failed because of a single item: report each one alone.
      if (group.length > 1 && !isTransient(error)) {
        for (const item of group) await this.reportGroup(route, [item]);
        return;
      }
      this.listener.log(`reporting ${group.length} ended jobs failed; their leases will expire: ${messageOf(error)}`);
      this.end(group, 'lost');
      return;
    }
    const taken: Finish[] = [];
    for (const [index, item] of group.entries()) {
      const answer = answers[index];
      if (answer && 'problem' in answer) await this.rejected(item, answer.problem);
      else taken.push(item);
    }
    this.end(taken, COUNTS[route]);
  }

  private async rejected(item: Finish, problem: Problem): Promise<void> {
    const error = problemError(problem);
    if (error.type === 'lease-lost' || error.type === 'not-found') return this.end([item], 'lost');
    this.listener.log(`the report of ${item.lease.id} was refused, the job is reported as dead: ${error.message}`);
    try {
      const [answer] = await this.call('fail', [refused(item.lease, error.message)]);
      this.end([item], answer && !('problem' in answer) ? 'failed' : 'lost');
    } catch {
      this.end([item], 'lost');
    }
  }

  /** Sends a report until the server takes it. Repeating a report that was taken returns the same answer. */
  private async call(route: ReportRoute, group: Finish[]): Promise<(FinishedAnswer | { problem: Problem })[]> {
    const began = performance.now();
    const texts = group.map((item) => item.text);
    for (let failures = 1; ; failures += 1) {
      let failure: unknown;
      try {
        const { items } = await this.work.reportText(route, texts);
        const later = items.find((item) => 'problem' in item && mayBeTakenLater(problemError(item.problem)));
        if (!later) return items;
        failure = problemError((later as { problem: Problem }).problem);
      } catch (error) {
        if (!isTransient(error)) throw error;
        failure = error;
      }
      if (performance.now() - began >= this.retryMsMax) throw failure;
      this.listener.log(`reporting ended jobs failed, retrying: ${messageOf(failure)}`);
      await sleep(backoffMs(failures));
    }
  }

  private end(items: Finish[], count: keyof WorkerReport): void {
    if (items.length === 0) return;
    this.counts[count] += items.length;
    this.listener.ended(items.map((item) => item.lease));
  }
}

function isTransient(error: unknown): boolean {
  return error instanceof BursarError && error.transient;
}

/** An internal error may be fixed by then. */
function mayBeTakenLater(error: ProblemError): boolean {
  return error.transient || error.type === 'internal';
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
