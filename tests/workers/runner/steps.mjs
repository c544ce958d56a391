// The steps that scenarios.json is made of.

import assert from 'node:assert/strict';
import { OPERATOR } from './server.mjs';

/** What the steps do, by their first field. Each gets the world of the scenario and the step. */
export const STEPS = {
  /** Enqueues a job, with a hold if `hold` has units. */
  async enqueue(world, { enqueue: name, kind, payload = null, hold, more = {} }) {
    const job = { queue: world.queue, kind, payload, ...more };
    if (hold === undefined) {
      world.jobs.set(name, (await world.server.api('POST', '/v1/jobs', job)).id);
    } else {
      const command = { charges: [{ scope: world.scope, amount: hold }], jobs: [job], settle: 'job' };
      world.jobs.set(name, (await world.server.api('POST', '/v1/commands', command)).jobs[0].id);
    }
  },

  async enqueue_many(world, { enqueue_many: kind, count }) {
    const jobs = Array.from({ length: count }, (_, n) => ({ queue: world.queue, kind, payload: n }));
    await world.server.api('POST', '/v1/jobs/bulk', { jobs });
  },

  /** Enqueues jobs whose payload is a text of exactly `bytes` bytes of JSON, with characters of every length. */
  async enqueue_huge(world, { enqueue_huge: name, kind, count, bytes }) {
    const head = 'x ü € 🦀 " \\ ';
    const text = head + 'y'.repeat(bytes - Buffer.byteLength(JSON.stringify(head)));
    assert.equal(Buffer.byteLength(JSON.stringify(text)), bytes);
    world.huge = { text, ids: [] };
    for (let from = 0; from < count; from += 10) {
      const jobs = Array.from({ length: Math.min(10, count - from) }, () => ({ queue: world.queue, kind, payload: text }));
      const answer = await world.server.api('POST', '/v1/jobs/bulk', { jobs });
      world.huge.ids.push(...answer.jobs.map(({ id }) => id));
    }
    world.jobs.set(name, world.huge.ids[0]);
  },

  start(world, { start: name, ...options }) {
    world.start(name, options);
  },

  /** Waits until a job is in a state, then checks what else the step says about it. */
  async until(world, { until: name, state, ...expected }) {
    let job;
    await world.eventually(
      async () => {
        job = await world.job(name);
        return job.state === state;
      },
      () => JSON.stringify(job),
    );
    const { attempts, result, cost, error_kind, error_message, worker, checkpoint, percent } = expected;
    if (attempts !== undefined) assert.equal(job.attempts, attempts, 'attempts');
    if (result !== undefined) assert.deepEqual(job.result, world.resolve(result), 'result');
    if (cost !== undefined) assert.equal(job.cost.reduce((sum, { amount }) => sum + amount, 0), cost, 'cost');
    if (error_kind !== undefined) assert.equal(job.error?.kind, error_kind, JSON.stringify(job.error));
    if (error_message !== undefined) assert.match(job.error?.message ?? '', new RegExp(error_message), JSON.stringify(job.error));
    if (checkpoint !== undefined) assert.deepEqual(job.checkpoint, checkpoint, 'checkpoint');
    if (percent !== undefined) assert.equal(job.progress?.percent, percent, 'percent');
    if (worker !== undefined) {
      const { items } = await world.server.api('GET', `/v1/jobs/${job.id}/attempts`);
      assert.equal(items[0].worker, world.tokens.get(worker).name, 'worker');
    }
  },

  async until_all(world, { until_all: state, kind, count }) {
    let jobs = [];
    await world.eventually(
      async () => {
        const { items } = await world.server.api('GET', `/v1/jobs?queue=${world.queue}&kind=${kind}&limit=1000`);
        jobs = items;
        return jobs.length === count && jobs.every((job) => job.state === state);
      },
      () => jobs.map((job) => job.state).join(),
    );
    assert.ok(jobs.every((job) => job.attempts === 1), 'a job needed more than one attempt');
  },

  async until_huge(world) {
    const { ids, text } = world.huge;
    let figures;
    await world.eventually(
      async () => {
        ({ figures } = await world.server.api('GET', `/v1/queues/${world.queue}`));
        return figures.states.succeeded === ids.length;
      },
      () => JSON.stringify(figures),
    );
    for (const id of ids) {
      const job = await world.server.api('GET', `/v1/jobs/${id}`);
      assert.equal(job.attempts, 1, 'attempts');
      assert.ok(job.result === text, 'the result differs from the payload');
    }
  },

  /** Waits until the scope has these posted and held units. */
  async balance(world, { balance: [posted, held] }) {
    let seen;
    await world.eventually(
      async () => {
        const { balances } = await world.server.api('GET', `/v1/budgets/${world.scope}`);
        seen = [balances[0].posted, balances[0].held];
        return seen[0] === posted && seen[1] === held;
      },
      () => JSON.stringify(seen),
    );
  },

  /** Waits until a worker has logged an event of a job. */
  async logged(world, { logged: event, worker, job, reason }) {
    const fits = (line) => line.event === event && (job === undefined || line.job === world.jobs.get(job)) && (reason === undefined || line.reason === reason);
    await world.eventually(
      () => world.logged(worker).some(fits),
      () => JSON.stringify(world.logged(worker).slice(-5)),
    );
  },

  /** Waits until heartbeats have extended a lease to a multiple of its length, in the first attempt. */
  async outlive(world, { outlive: name, leases, lease_ms }) {
    const { lease } = await world.job(name);
    assert.ok(lease, 'the job is not leased');
    const until = Date.parse(lease.since) + leases * lease_ms;
    let job;
    await world.eventually(
      async () => {
        job = await world.job(name);
        assert.deepEqual([job.state, job.attempts], ['leased', 1], 'the lease expired');
        return Date.parse(job.lease.expires_at) >= until;
      },
      () => JSON.stringify(job),
    );
  },

  open(world, { open: gate }) {
    world.open(gate);
  },

  async kill(world, { kill: name }) {
    const worker = world.worker(name);
    worker.mayEnd = true;
    worker.child.kill('SIGKILL');
    await worker.ended;
  },

  suspend(world, { suspend: name }) {
    world.worker(name).child.kill('SIGSTOP');
  },

  resume(world, { resume: name }) {
    world.worker(name).child.kill('SIGCONT');
  },

  terminate(world, { terminate: name }) {
    const worker = world.worker(name);
    worker.mayEnd = true;
    worker.child.kill('SIGTERM');
  },

  /** Waits until a worker program ends by itself. */
  async exits(world, { exits: name, failed }) {
    const worker = world.worker(name);
    worker.mayEnd = true;
    await world.eventually(() => worker.status !== undefined);
    const { status } = worker;
    if (failed) assert.ok(typeof status === 'number' && status !== 0, `exit status ${status}`);
    else assert.equal(status, 0, `exit status ${status}`);
  },

  /** Ends a worker program with SIGTERM. */
  async drain(world, { drain: name }) {
    STEPS.terminate(world, { terminate: name });
    await STEPS.exits(world, { exits: name, failed: false });
  },

  async cancel(world, { cancel: name }) {
    const { state } = await world.server.api('POST', `/v1/jobs/${world.jobs.get(name)}/cancel`, {});
    assert.equal(state, 'leased', 'a running job is not cancelled at once');
  },

  async kill_server(world) {
    await world.server.kill();
  },

  async start_server(world) {
    await world.server.again();
  },

  async issue(world, { issue: name }) {
    const body = { name: `${world.queue}-${name}`, capabilities: { queues: [world.queue], kinds: ['*'], charges: [] } };
    const { id, token } = await world.server.api('POST', '/v1/workers', body);
    world.tokens.set(name, { id, token, name: body.name });
  },

  async revoke(world, { revoke: name }) {
    await world.server.api('DELETE', `/v1/workers/${world.tokens.get(name).id}`);
  },

  /** Listens to the events of a job until the end of the scenario. Like every listener, it resumes when its stream ends. */
  async listen(world, { listen: name }) {
    const { signal } = (world.listening = new AbortController());
    world.heard = '';
    const url = `${world.server.url}/v1/events?channels=job:${world.jobs.get(name)}`;
    const read = async () => {
      const seen = [...world.heard.matchAll(/^id: (\d+)$/gm)].at(-1)?.[1];
      const headers = { authorization: `Bearer ${OPERATOR}`, ...(seen && { 'last-event-id': seen }) };
      const answer = await fetch(url, { headers, signal });
      assert.equal(answer.status, 200);
      for await (const part of answer.body.pipeThrough(new TextDecoderStream())) world.heard += part;
    };
    const listen = async () => {
      while (!signal.aborted) {
        const ended = await read().then(() => ': the stream ended', (error) => `: ${error}`);
        // An event that was cut off comes again.
        world.heard = `${world.heard.slice(0, world.heard.lastIndexOf('\n\n') + 2)}${ended}\n\n`;
        await new Promise((done) => setTimeout(done, 100));
      }
    };
    void listen();
    await world.eventually(() => world.heard.includes('event: ready'), () => world.heard);
  },

  /** Waits for a progress event. */
  async heard(world, { heard: expected }) {
    const frames = () => world.heard.split('\n\n').filter((frame) => frame.includes('event: progress'));
    const data = (frame) => JSON.parse(/^data: (.*)$/m.exec(frame)[1]);
    const [first] = await world.eventually(() => frames().length > 0 && frames(), () => world.heard);
    const { percent, message, data: more } = data(first);
    assert.deepEqual({ percent, message, data: more }, expected);
  },

  /** Makes a worker lease jobs ahead of the one that it runs: short jobs show it a high rate, then a gate occupies its only handler. */
  async lease_ahead(world, { lease_ahead: worker, short, gates }) {
    for (let round = 1; round <= 10; round += 1) {
      const gate = `round-${round}`;
      const make = (count, job) => Array.from({ length: count }, () => ({ queue: world.queue, ...job }));
      const jobs = [...make(short, { kind: 'echo', payload: null }), ...make(gates, { kind: 'gate', payload: { gates: [gate] } })];
      const made = (await world.server.api('POST', '/v1/jobs/bulk', { jobs })).jobs.slice(short).map(({ id }) => id);
      await world.eventually(() => world.logged(worker).some(({ event, job }) => event === 'started' && made.includes(job)));
      const { items } = await world.server.api('GET', `/v1/jobs?queue=${world.queue}&state=leased&limit=100`);
      if (items.length > 1) return;
      world.open(gate);
    }
    assert.fail('the worker never leased a job ahead');
  },

  /** Checks that no job is leased, that jobs which did not run have no attempt, and that at least one was returned. */
  async returned(world) {
    const list = async (query) => (await world.server.api('GET', `/v1/jobs?queue=${world.queue}&limit=1000${query}`)).items;
    let leased = [];
    await world.eventually(
      async () => {
        leased = await list('&state=leased');
        return leased.length === 0;
      },
      () => JSON.stringify(leased),
    );
    const queued = await list('&state=queued');
    assert.ok(queued.length > 0, 'no job is left');
    assert.ok(queued.every(({ attempts }) => attempts === 0), 'a returned job counts an attempt');
    const gates = await list('&kind=gate&state=succeeded');
    assert.ok(gates.length > 0 && gates.every(({ attempts }) => attempts === 1), 'the running handler did not finish');
    const returned = await Promise.all(
      queued.map(async ({ id }) => {
        const { items } = await world.server.api('GET', `/v1/jobs/${id}/events`);
        return items.some(({ kind }) => kind === 'job.returned');
      }),
    );
    assert.ok(returned.includes(true), 'no job was returned');
  },
};
