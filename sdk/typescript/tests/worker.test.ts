import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { z } from 'zod';
import {
  ArgumentError,
  type Bursar,
  createWorker,
  ForbiddenError,
  LeaseLostError,
  NonRetryableError,
  StopError,
  type WorkerOptions,
} from '../src/index.js';
import { LeaseTable } from '../src/worker/lease_table.js';
import { CompletionRate } from '../src/worker/rate.js';
import { eventually, OPERATOR, Server } from './support.js';

let server: Server;
let bursar: Bursar;
let queues = 0;
before(async () => {
  server = await Server.start();
  bursar = server.client();
});
after(() => server.stop());

/** Returns a new queue and a worker for it. */
async function world(options: Partial<WorkerOptions> = {}) {
  queues += 1;
  const queue = `q${queues}`;
  await bursar.queues.define(queue, { retry: { backoff: 'fixed', delay_ms: 0, max_attempts: 3 } });
  const worker = createWorker({ url: server.url, token: OPERATOR, queues: [queue], log: () => undefined, ...options });
  const enqueue = async (kind: string, payload: unknown = null) => (await bursar.jobs.enqueue({ queue, kind, payload })).id;
  const until = (id: string, state: string) =>
    eventually(async () => {
      const job = await bursar.jobs.find(id);
      return job.state === state && job;
    });
  return { queue, worker, enqueue, until };
}

test('a payload is validated by a Standard Schema', async () => {
  const { worker, enqueue, until } = await world();
  worker.on('sum', { payload: z.object({ a: z.number(), b: z.coerce.number() }) }, (job) => job.payload.a + job.payload.b);
  const running = await worker.start();
  const good = await until(await enqueue('sum', { a: 1, b: '2' }), 'succeeded');
  assert.equal(good.result, 3);
  const bad = await until(await enqueue('sum', { a: 'x' }), 'dead');
  assert.equal(bad.attempts, 1);
  assert.equal(bad.error?.kind, 'payload');
  assert.match(bad.error?.message ?? '', /a: /);
  assert.deepEqual(await running.drain(), { completed: 1, failed: 1, snoozed: 0, returned: 0, lost: 0 });
});

test('the most specific handler is chosen', async () => {
  const { worker, enqueue, until } = await world();
  for (const kind of ['video.cut', 'video.*', '*']) worker.on(kind, () => kind);
  const running = await worker.start();
  for (const [kind, expected] of [
    ['video.cut', 'video.cut'],
    ['video.mix', 'video.*'],
    ['mail', '*'],
  ] as const) {
    assert.equal((await until(await enqueue(kind), 'succeeded')).result, expected);
  }
  await running.drain();
});

test('the next attempt gets the checkpoint', async () => {
  const { worker, enqueue, until } = await world();
  const seen: unknown[] = [];
  worker.on('rows', async (job, ctx) => {
    seen.push(ctx.checkpoint);
    await assert.rejects(ctx.progress({ checkpoint: 'x'.repeat(20_000) }), /store larger data as a blob/);
    if (job.attempt === 3) return null;
    await ctx.progress({ percent: 40, checkpoint: job.attempt === 1 ? { row: 7 } : null });
    await ctx.progress({ percent: 50, message: 'a report without a checkpoint' });
    throw new Error('once more');
  });
  const running = await worker.start();
  const done = await until(await enqueue('rows'), 'succeeded');
  assert.deepEqual(seen, [null, { row: 7 }, null]);
  assert.deepEqual([done.checkpoint, done.progress?.percent, done.progress?.message], [null, 50, 'a report without a checkpoint']);
  await running.drain();
});

test('a handler emits events of the application', async () => {
  const { worker, enqueue, until } = await world();
  worker.on('render', async (_, ctx) => {
    await ctx.emit('preview.ready', { frame: 7 });
    await assert.rejects(ctx.emit('preview.ready', 'x'.repeat(20_000)), /at most 16384/);
  });
  const running = await worker.start();
  const id = await enqueue('render');
  await until(id, 'succeeded');
  await running.drain();
  const { items } = await bursar.jobs.events(id);
  const emitted = items.filter((event) => event.kind === 'job.emitted');
  assert.deepEqual(
    emitted.map((event) => event.data),
    [{ job: id, fence: 1, event: 'preview.ready', data: { frame: 7 } }],
  );
});

test('a checkpoint is refused when the lease is lost', async () => {
  const { worker, enqueue, until } = await world();
  let refused: unknown;
  worker.on('lost', async (job, ctx) => {
    const error = { kind: 'gone', message: 'ended elsewhere' };
    await bursar.work.fail([{ id: job.id, fence: job.lease?.fence ?? 0, error, retryable: false }]);
    refused = await ctx.progress({ checkpoint: 1 }).catch((error: unknown) => error);
  });
  const running = await worker.start();
  const id = await enqueue('lost');
  await until(id, 'dead');
  await eventually(async () => refused);
  await running.drain();
  assert.ok(refused instanceof LeaseLostError, String(refused));
  assert.equal((await bursar.jobs.find(id)).checkpoint, null);
});

test('results that cannot be stored make the job dead', async () => {
  const { worker, enqueue, until } = await world();
  worker
    .on('big', () => 'x'.repeat(1 << 20))
    .on('bigint', () => 1n)
    .on('nothing', () => undefined);
  const running = await worker.start();
  for (const kind of ['big', 'bigint']) {
    const job = await until(await enqueue(kind), 'dead');
    assert.deepEqual([job.attempts, job.error?.kind], [1, 'result'], kind);
  }
  assert.equal((await until(await enqueue('nothing'), 'succeeded')).result ?? null, null);
  await running.drain();
});

test('errors carry their causes and are cut to the size of a report', async () => {
  const { worker, enqueue, until } = await world();
  worker.on('caused', () => {
    throw new NonRetryableError('outer', { kind: 'k', cause: new Error('inner') });
  });
  worker.on('long', () => {
    throw new TypeError('ä'.repeat(4_000));
  });
  const running = await worker.start();
  assert.equal((await until(await enqueue('caused'), 'dead')).error?.message, 'outer: inner');
  const long = await until(await enqueue('long'), 'dead');
  assert.deepEqual([long.attempts, long.error?.kind, long.error?.message], [3, 'TypeError', 'ä'.repeat(2_048)]);
  await running.drain();
});

test('usage must be a whole number of units', async () => {
  const { worker, until } = await world();
  worker.on('x', (_, ctx) => {
    for (const wrong of [-1, 0.5, Number.NaN, 2 ** 53]) assert.throws(() => ctx.usage(wrong), ArgumentError);
    ctx.usage(2);
    ctx.usage(3);
    return [ctx.spent(), ctx.idempotencyKey, ctx.attempt];
  });
  const running = await worker.start();
  await bursar.budgets.define('team', { limits: [{ amount: 100, window: 'lifetime' }] });
  const command = { charges: [{ scope: 'team', amount: 10 }], jobs: [{ queue: `q${queues}`, kind: 'x' }], settle: 'job' as const };
  const id = (await bursar.commands.submit(command)).jobs[0]?.id as string;
  const job = await until(id, 'succeeded');
  assert.deepEqual(job.result, [5, id, 1]);
  assert.deepEqual(job.cost, [{ scope: 'team', amount: 5 }]);
  await running.drain();
});

test('a hanging handler is given up after the grace period, and its job is returned', async () => {
  const { worker, enqueue } = await world({ graceMs: 10 });
  let reason: unknown;
  let started = false;
  worker.on('hang', (_, ctx) => {
    started = true;
    ctx.signal.addEventListener('abort', () => (reason = ctx.signal.reason));
    return new Promise(() => undefined);
  });
  const running = await worker.start();
  const id = await enqueue('hang');
  await eventually(() => started);
  const report = await running.drain();
  // The lease call in flight may get the job once more, and returns it again.
  assert.ok(report.returned >= 1);
  assert.deepEqual([report.completed, report.failed, report.lost], [0, 0, 0]);
  assert.ok(reason instanceof StopError && reason.reason === 'draining');
  const job = await bursar.jobs.find(id);
  assert.deepEqual([job.state, job.attempts], ['queued', 0]);
});

test('jobs that are leased while the event loop is blocked keep their leases', async () => {
  const { worker, enqueue, until } = await world({ concurrency: 5, leaseMs: 5_000 });
  let second: string | undefined;
  worker.on('block', () => {
    // The lease call that waits now is answered while this handler blocks the event loop.
    const until = performance.now() + 8_000;
    while (performance.now() < until);
  });
  worker.on('other', () => 'done');
  const running = await worker.start();
  const first = await enqueue('block');
  // Another process enqueues, because this one is blocked.
  const { spawn } = await import('node:child_process');
  const script = `
    const headers = { authorization: 'Bearer ${OPERATOR}', 'content-type': 'application/json' };
    const call = (path, body) => fetch('${server.url}' + path, { headers, method: body ? 'POST' : 'GET', body: body && JSON.stringify(body) }).then((a) => a.json());
    while ((await call('/v1/jobs/${first}')).state !== 'leased') await new Promise((done) => setTimeout(done, 20));
    console.log((await call('/v1/jobs', { queue: 'q${queues}', kind: 'other' })).id);`;
  const child = spawn(process.execPath, ['--input-type=module', '-e', script], { stdio: ['ignore', 'pipe', 'inherit'] });
  child.stdout.setEncoding('utf8').on('data', (text: string) => (second = text.trim()));
  assert.equal((await until(first, 'succeeded')).attempts, 1);
  const id = await eventually(() => second);
  assert.equal((await until(id, 'succeeded')).attempts, 1);
  await running.drain();
});

test('a paused queue gets its unstarted jobs back', async () => {
  const { queue, worker, enqueue, until } = await world({ concurrency: 1, leaseMs: 3_000 });
  const gates: { open: () => void; opened: Promise<void> }[] = [];
  worker.on('short', () => null).on<number>('wait', (job) => gates[job.payload]?.opened);
  const running = await worker.start();
  const leased = async () => (await bursar.jobs.all({ queue, state: 'leased' })).items.length;
  // Short jobs make the worker lease ahead; then one that waits occupies its only handler.
  const gate = await eventually(async () => {
    const round = gates.length;
    let open: () => void = () => undefined;
    const opened = new Promise<void>((done) => (open = done));
    gates.push({ open, opened });
    await bursar.jobs.enqueueAll(Array.from({ length: 100 }, () => ({ queue, kind: 'short' })));
    const first = await enqueue('wait', round);
    await bursar.jobs.enqueueAll(Array.from({ length: 20 }, () => ({ queue, kind: 'wait', payload: round })));
    await until(first, 'leased');
    if ((await leased()) > 1) return { open };
    open();
    return undefined;
  });
  await bursar.queues.pause(queue);
  await eventually(async () => (await leased()) === 1);
  gate.open();
  await eventually(async () => (await leased()) === 0);
  const report = await running.drain();
  assert.ok(report.returned > 0);
});

test('a worker whose token is denied ends with the problem', async () => {
  const issued = await bursar.workers.create({ name: 'w', capabilities: { queues: ['elsewhere'], kinds: ['*'], charges: [] } });
  const { worker } = await world({ token: issued.token as string });
  const running = await worker.on('x', () => null).start();
  await assert.rejects(running.done, ForbiddenError);
});

test('wrong settings are refused', async () => {
  const wrong: [Partial<WorkerOptions>, RegExp][] = [
    [{ queues: [] }, /queues/],
    [{ concurrency: 0 }, /concurrency/],
  ];
  for (const [options, message] of wrong) {
    assert.throws(() => createWorker({ url: server.url, queues: ['q'], ...options }), message);
  }
  await assert.rejects(createWorker({ url: server.url, queues: ['q'] }).start(), /no handler/);
  await assert.rejects(
    createWorker({ url: 'nowhere', queues: ['q'] })
      .on('x', () => null)
      .start(),
    ArgumentError,
  );
});

test('heartbeats are planned by the length of the lease, whatever the clock says', () => {
  const job = (id: string, fence: number, since: string, expires_at: string) => {
    return { id, queue: 'q', kind: 'k', payload: null, attempt: 1, lease: { fence, worker: 'w', since, expires_at } };
  };
  const table = new LeaseTable();
  table.add([job('a', 1, '1999-01-01T00:00:00Z', '1999-01-01T00:00:30Z')], 1_000);
  assert.equal(table.nextBeat(), 11_000);
  assert.deepEqual(table.takeDue(8_001), [{ id: 'a', fence: 1 }]);
  assert.equal(table.nextBeat(), 13_001, 'the time of the retry');
  table.renewed({ id: 'a', fence: 1 }, 8_001);
  assert.equal(table.nextBeat(), 18_001);
  assert.deepEqual(table.takeExpired(38_000), []);
  assert.deepEqual(table.takeExpired(38_001), [{ id: 'a', fence: 1 }]);
  table.add([job('b', 1, '2099-01-01T00:00:00Z', '2099-01-01T00:00:03Z')], 0);
  assert.deepEqual(table.add([job('b', 2, '2099-01-01T00:00:00Z', '2099-01-01T00:00:03Z')], 0), [{ id: 'b', fence: 1 }]);
  assert.equal(table.end({ id: 'b', fence: 1 }), false);
  assert.equal(table.end({ id: 'b', fence: 2 }), true);
  assert.equal(table.nextBeat(), undefined);
});

test('short jobs are leased ahead and long ones are not', () => {
  const rate = new CompletionRate(0);
  assert.equal(rate.jobsAhead(0), 0);
  for (let ms = 0; ms < 100; ms += 1) rate.jobEnded(ms);
  assert.equal(rate.jobsAhead(100), 100);
  assert.equal(rate.jobsAhead(300), 0);
  for (let second = 1; second < 10; second += 1) {
    rate.jobEnded(second * 1_000);
    assert.ok(rate.jobsAhead(second * 1_000) <= 1);
  }
});
