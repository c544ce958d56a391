// The measurement, shared by all peers written in JavaScript. `src/lib.rs` does the same for peers written in Rust and
// documents each part; keep both in step.
//
// A driver calls `run(open)`. `open(ask)` returns an object with
//   label(work)        { peer, version, engine, settings }
//   enqueueBulk(jobs)  in the fastest way that the peer documents
//   enqueue()          one job, durable when the promise resolves
//   start(handed)      a worker whose handler calls handed(count) and nothing else
//   stop(worker)       after its finished jobs are recorded in the database
//   unfinished()       the number of waiting and running jobs in the database
//   rest()             updates statistics and runs a checkpoint after bulk writes
//   close()
import { readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";

const WARM_JOBS = 2_000;
const WARM_MS = 1_000;
const WARM_SAMPLES = 20;
const PAUSE_MS = 23;
const PATIENCE_MS = 600_000;

export async function run(open) {
  const ask = parse();
  setTimeout(() => { throw new Error("the round exceeded its timeout"); }, PATIENCE_MS).unref();
  const peer = await open(ask);
  const work = { drain, "enqueue-bulk": enqueueBulk, enqueue, latency }[ask.work];
  const { n, perSecond, samples } = await work(peer, ask);
  const line = {
    ...peer.label(ask.work),
    work: ask.work,
    n,
    per_second: perSecond,
    p50_ms: percentile(samples, 0.5),
    p99_ms: percentile(samples, 0.99),
  };
  console.log(JSON.stringify(line));
  await peer.close();
  process.exit(0);
}

/** Returns the version of an installed package. */
export function versionOf(name) {
  return JSON.parse(readFileSync(new URL(`../node_modules/${name}/package.json`, import.meta.url), "utf8")).version;
}

/** Splits `jobs` numbers into batches of `size`. */
export function* batches(jobs, size) {
  for (let from = 0; from < jobs; from += size) {
    yield Array.from({ length: Math.min(size, jobs - from) }, (_, n) => from + n);
  }
}

/** Calls `each` for all of `items`, at most `width` at once. */
export async function inParallel(items, width, each) {
  const iterator = items[Symbol.iterator]();
  const lane = async () => {
    for (let next = iterator.next(); !next.done; next = iterator.next()) await each(next.value);
  };
  await Promise.all(Array.from({ length: width }, lane));
}

function parse() {
  const number = (fallback) => ({ type: "string", default: String(fallback) });
  const options = {
    database: { type: "string" },
    // Only for drivers of Bursar: its program, and the folder of its SDKs.
    bursar: { type: "string" }, sdk: { type: "string" },
    jobs: number(100_000), callers: number(50), seconds: number(5), samples: number(200),
    finished: number(0), backlog: number(0), concurrency: number(0),
  };
  const { values, positionals } = parseArgs({ options, allowPositionals: true });
  const { database, bursar, sdk, ...numbers } = values;
  for (const name in numbers) numbers[name] = Number(numbers[name]);
  return { work: positionals[0], database, bursar, sdk, ...numbers };
}

/** The number of jobs passed to a handler, and when. */
class Progress {
  constructor(goal) { this.again(goal); }

  again(goal) {
    this.goal = goal;
    this.count = 0;
    this.first = undefined;
    this.reached = new Promise((resolve) => { this.resolve = resolve; });
  }

  handed = (jobs = 1) => {
    if (jobs === 0) return;
    if (this.count === 0) this.first = performance.now();
    const before = this.count;
    this.count += jobs;
    if (before < this.goal && this.count >= this.goal) this.resolve({ first: this.first, last: performance.now() });
  };
}

async function drain(peer, ask) {
  await finish(peer, WARM_JOBS + ask.finished);
  await peer.enqueueBulk(ask.jobs + ask.backlog);
  await peer.rest();
  const progress = new Progress(ask.jobs);
  const worker = await peer.start(progress.handed);
  const { first, last } = await progress.reached;
  const end = ask.backlog === 0 ? await empty(peer) : last;
  await peer.stop(worker);
  return { n: ask.jobs, perSecond: ask.jobs / (end - first) * 1_000, samples: [] };
}

async function enqueueBulk(peer, ask) {
  await peer.enqueueBulk(WARM_JOBS);
  await peer.rest();
  const began = performance.now();
  await peer.enqueueBulk(ask.jobs);
  return { n: ask.jobs, perSecond: ask.jobs / (performance.now() - began) * 1_000, samples: [] };
}

async function enqueue(peer, ask) {
  const began = performance.now() + WARM_MS;
  const end = began + ask.seconds * 1_000;
  const samples = [];
  const caller = async () => {
    for (;;) {
      const asked = performance.now();
      if (asked >= end) return;
      await peer.enqueue();
      const answered = performance.now();
      if (asked >= began && answered <= end) samples.push(answered - asked);
    }
  };
  await Promise.all(Array.from({ length: ask.callers }, caller));
  return { n: samples.length, perSecond: samples.length / ask.seconds, samples };
}

async function latency(peer, ask) {
  const progress = new Progress(1);
  const worker = await peer.start(progress.handed);
  const samples = [];
  for (let sample = 0; sample < WARM_SAMPLES + ask.samples; sample += 1) {
    await sleep(PAUSE_MS);
    progress.again(1);
    const asked = performance.now();
    await peer.enqueue();
    const { first } = await progress.reached;
    if (sample >= WARM_SAMPLES) samples.push(first - asked);
  }
  await peer.stop(worker);
  return { n: ask.samples, perSecond: null, samples };
}

async function finish(peer, jobs) {
  await peer.enqueueBulk(jobs);
  const progress = new Progress(jobs);
  const worker = await peer.start(progress.handed);
  await progress.reached;
  await empty(peer);
  await peer.stop(worker);
}

async function empty(peer) {
  while (await peer.unfinished() > 0) await sleep(2);
  return performance.now();
}

function percentile(samples, share) {
  if (samples.length === 0) return null;
  const sorted = Float64Array.from(samples).sort();
  return sorted[Math.round((sorted.length - 1) * share)];
}
