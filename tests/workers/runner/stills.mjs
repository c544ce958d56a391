// Notices when the machine stands still: a virtual machine whose host takes its processors lets leases expire and closes streams, so a
// scenario in which that happens proves nothing.

import { setTimeout as sleep } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';

/** The least time that counts. */
const STILL_MS = 500;
const TICK_MS = 100;

/** What the thread runs. The runner's own thread is also blocked by commands that it waits for. */
const THREAD = `
  const { parentPort } = require('node:worker_threads');
  let awake = Date.now();
  setInterval(() => {
    const still = Date.now() - awake - ${TICK_MS};
    awake = Date.now();
    if (still >= ${STILL_MS}) parentPort.postMessage({ until: awake, still });
  }, ${TICK_MS});
`;

export class Stills {
  constructor() {
    this.seen = [];
    this.thread = new Worker(THREAD, { eval: true });
    this.thread.on('message', (still) => this.seen.push(still));
    this.thread.unref();
  }

  /** Returns the longest time in ms for which the machine stood still since an instant; 0 if it did not. */
  async longest(from) {
    // What was noticed last has arrived by then.
    await sleep(3 * TICK_MS);
    return Math.max(0, ...this.seen.filter(({ until }) => until >= from).map(({ still }) => still));
  }
}
