/** How many jobs to lease ahead of those that run: as many as end in a tenth of a second. That hides the latency of the lease call for short
 * jobs, and leaves long jobs to other workers. */

const WINDOW_MS = 100;

export class CompletionRate {
  private windowStart: number;
  private current = 0;
  private previous = 0;

  constructor(now: number) {
    this.windowStart = now;
  }

  /** Counts a job that ended. */
  jobEnded(now: number): void {
    this.advance(now);
    this.current += 1;
  }

  /** Returns how many jobs to lease ahead. */
  jobsAhead(now: number): number {
    this.advance(now);
    return Math.max(this.current, this.previous);
  }

  private advance(now: number): void {
    const elapsed = now - this.windowStart;
    if (elapsed < WINDOW_MS) return;
    this.previous = elapsed < 2 * WINDOW_MS ? this.current : 0;
    this.windowStart = now;
    this.current = 0;
  }
}
