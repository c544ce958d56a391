/** The leases of a worker and when their heartbeats are due. Times are of `performance.now()`, so no clock of the server is compared with one
 * of this machine. */

import type { LeasedAnswer } from '../generated/api.js';
import type { LeaseKey } from './protocol.js';

interface Lease extends LeaseKey {
  lengthMs: number;
  beatAt: number;
  expiresAt: number;
}

export class LeaseTable {
  private readonly leases = new Map<string, Lease>();

  /** Adds new leases. Returns older leases of the same jobs, which expired unnoticed. */
  add(jobs: LeasedAnswer[], now: number): LeaseKey[] {
    const expired: LeaseKey[] = [];
    for (const job of jobs) {
      const lengthMs = leaseLengthMs(job);
      const known = this.leases.get(job.id);
      if (known) expired.push({ id: known.id, fence: known.fence });
      const lease = { id: job.id, fence: job.lease?.fence ?? 0, lengthMs, beatAt: 0, expiresAt: 0 };
      renew(lease, now);
      this.leases.set(job.id, lease);
    }
    return expired;
  }

  /** Removes a lease that has ended; returns whether it was there. */
  end(key: LeaseKey): boolean {
    return this.find(key) !== undefined && this.leases.delete(key.id);
  }

  private find(key: LeaseKey): Lease | undefined {
    const lease = this.leases.get(key.id);
    return lease?.fence === key.fence ? lease : undefined;
  }

  /** Plans the next heartbeat of a lease that a heartbeat sent at `sentAt` has extended. */
  renewed(key: LeaseKey, sentAt: number): void {
    const lease = this.find(key);
    if (lease) renew(lease, sentAt);
  }

  /** Returns when the next heartbeat is due. */
  nextBeat(): number | undefined {
    let next: number | undefined;
    for (const lease of this.leases.values()) if (next === undefined || lease.beatAt < next) next = lease.beatAt;
    return next;
  }

  /** Returns the leases whose heartbeats are due now or soon, so that one call carries many of them. */
  takeDue(now: number): LeaseKey[] {
    const due: LeaseKey[] = [];
    for (const lease of this.leases.values()) {
      if (lease.beatAt > now + lease.lengthMs / 10) continue;
      // This is the time of the retry if the call fails.
      lease.beatAt = now + lease.lengthMs / 6;
      due.push({ id: lease.id, fence: lease.fence });
    }
    return due;
  }

  /** Removes and returns the leases that expired because no heartbeat got through. */
  takeExpired(now: number): LeaseKey[] {
    const expired: LeaseKey[] = [];
    for (const lease of this.leases.values()) {
      if (lease.expiresAt > now) continue;
      this.leases.delete(lease.id);
      expired.push({ id: lease.id, fence: lease.fence });
    }
    return expired;
  }
}

/** Plans the next heartbeat after a third of the lease, so that two heartbeats may fail. */
function renew(lease: Lease, now: number): void {
  lease.beatAt = now + lease.lengthMs / 3;
  lease.expiresAt = now + lease.lengthMs;
}

/** Both times are of the server's clock, so that their difference does not depend on the clock of this machine. */
function leaseLengthMs(job: LeasedAnswer): number {
  const length = Date.parse(job.lease?.expires_at ?? '') - Date.parse(job.lease?.since ?? '');
  return Number.isFinite(length) && length > 0 ? length : 1_000;
}
