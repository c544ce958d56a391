/** Random idempotency keys and backoff with jitter. */

const BACKOFF_MS_MIN = 50;
const BACKOFF_MS_MAX = 5_000;

/** Returns a unique idempotency key. */
export function randomKey(): string {
  return `client-${crypto.randomUUID().replaceAll('-', '')}`;
}

/** Returns how long to wait after `attempts` failed attempts, in milliseconds. Half of the delay is random, so that clients that failed
 * together do not retry together. */
export function backoffMs(attempts: number): number {
  const max = Math.min(BACKOFF_MS_MIN * 2 ** Math.min(attempts, 10), BACKOFF_MS_MAX);
  return max * (0.5 + Math.random() / 2);
}
