// One run of a scenario: its queue, its scope, its worker processes, and the steps that act on them.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { appendFileSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { environment, OPERATOR } from './server.mjs';
import { startSkewed } from './skewed.mjs';
import { STEPS } from './steps.mjs';

/** How long a step waits for a condition. */
export const PATIENCE_MS = 180_000;
let worlds = 0;

export class World {
  constructor(server, command, root, scenario) {
    worlds += 1;
    Object.assign(this, { server, command, root, scenario });
    this.queue = `scenario-${worlds}`;
    this.scope = `scenario:${worlds}`;
    this.folder = mkdtempSync(join(tmpdir(), 'bursar-scenario-'));
    process.once('exit', () => this.stop());
    this.jobs = new Map();
    this.tokens = new Map();
    this.workers = new Map();
  }

  async run() {
    const retry = { backoff: 'fixed', delay_ms: 0, max_attempts: 3 };
    await this.server.api('PUT', `/v1/queues/${this.queue}`, { retry });
    const limits = [{ amount: 1_000, window: 'lifetime' }];
    await this.server.api('PUT', `/v1/budgets/${this.scope}`, { limits });
    this.skewed = this.scenario.clock_ms ? await startSkewed(this.server, this.scenario.clock_ms) : undefined;
    for (const [index, step] of this.scenario.steps.entries()) {
      const [verb] = Object.keys(step);
      const act = STEPS[verb];
      assert.ok(act, `there is no step ${verb}`);
      try {
        await act(this, step);
      } catch (error) {
        error.message = `step ${index + 1}, ${JSON.stringify(step)}: ${error.message}`;
        throw error;
      }
    }
  }

  /** Starts a worker program. */
  start(name, { concurrency = 4, lease_ms, grace_ms, token } = {}) {
    const log = join(this.folder, `${name}.log`);
    appendFileSync(log, '');
    const env = environment({
      BURSAR_SERVER: this.skewed?.url ?? this.server.url,
      BURSAR_TOKEN: token ? this.tokens.get(token).token : OPERATOR,
      WORKER_NAME: `${this.queue}-${name}`,
      WORKER_QUEUE: this.queue,
      WORKER_CONCURRENCY: String(concurrency),
      WORKER_FOLDER: this.folder,
      WORKER_LOG: log,
      ...(lease_ms === undefined ? {} : { WORKER_LEASE_MS: String(lease_ms) }),
      ...(grace_ms === undefined ? {} : { WORKER_GRACE_MS: String(grace_ms) }),
    });
    const [program, ...options] = this.command;
    const child = spawn(program, options, { cwd: this.root, env, stdio: ['ignore', 'pipe', 'pipe'] });
    const worker = { child, log, output: '' };
    // A step that ends the worker sets `mayEnd` first.
    worker.mayEnd = false;
    worker.ended = new Promise((done) => {
      child.once('error', (error) => done(String(error)));
      child.once('exit', (code, signal) => done(signal ?? code));
    });
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding('utf8').on('data', (text) => {
        worker.output = (worker.output + text).slice(-20_000);
      });
    }
    void worker.ended.then((status) => (worker.status = status));
    this.workers.set(name, worker);
  }

  worker(name) {
    const worker = this.workers.get(name);
    assert.ok(worker, `the worker ${name} was not started`);
    return worker;
  }

  /** Returns the lines of a worker's log. */
  logged(name) {
    const lines = readFileSync(this.worker(name).log, 'utf8').split('\n');
    // The last part is empty, or a line that is being written.
    return lines.slice(0, -1).map((line) => JSON.parse(line));
  }

  open(gate) {
    writeFileSync(join(this.folder, gate), '');
  }

  job(name) {
    assert.ok(this.jobs.has(name), `there is no job ${name}`);
    return this.server.api('GET', `/v1/jobs/${this.jobs.get(name)}`);
  }

  /** Replaces `$name` by the id of that job. */
  resolve(value) {
    return JSON.parse(JSON.stringify(value), (_, part) => {
      const name = typeof part === 'string' && part.startsWith('$') ? part.slice(1) : undefined;
      return name && this.jobs.has(name) ? this.jobs.get(name) : part;
    });
  }

  /** Polls until there is a result; fails with what was seen last. */
  async eventually(poll, seen = () => '') {
    const deadline = Date.now() + PATIENCE_MS;
    for (;;) {
      const found = await poll();
      if (found !== undefined && found !== false) return found;
      for (const [name, { status, mayEnd }] of this.workers) {
        if (status !== undefined && !mayEnd) throw new Error(`the worker ${name} ended by itself with ${status}`);
      }
      if (Date.now() > deadline) throw new Error(`not within ${PATIENCE_MS / 1000} s; seen last: ${seen()}`);
      await new Promise((done) => setTimeout(done, 30));
    }
  }

  /** Returns what the worker programs printed and logged. */
  output() {
    const parts = [...this.workers].map(([name, { output, log }]) => {
      const lines = existsSync(log) ? readFileSync(log, 'utf8').slice(-5_000) : '';
      return `--- output of the worker ${name}\n${output}--- its log\n${lines}`;
    });
    return parts.join('\n');
  }

  stop() {
    this.listening?.abort();
    this.skewed?.stop();
    for (const { child } of this.workers.values()) child.kill('SIGKILL');
    rmSync(this.folder, { recursive: true, force: true });
  }
}
