import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { inspect } from 'node:util';
import {
  AlreadySettledError,
  ArgumentError,
  Bursar,
  ChangedError,
  HoldSettledError,
  InvalidError,
  NotFoundError,
  OverloadedError,
  QuotaExceededError,
  RefusedError,
  responseMeta,
  UnauthorizedError,
  UnknownOutcomeError,
  UnknownScopeError,
  UnreachableError,
  UnreadableError,
} from '../src/index.js';
import { cut, json, problem, Scripted } from './scripted.js';
import { eventually, Server } from './support.js';

describe('calls over a scripted server', () => {
  const attempt = async (answers: Parameters<typeof Scripted.start>, options = {}) => {
    const server = await Scripted.start(...answers);
    const client = new Bursar({ url: server.url, token: 'secret-token', ...options });
    const ended = await client.budgets.credit('a', { amount: 1, reason: 'x' }).then(
      (answer) => ({ answer, error: undefined }),
      (error) => ({ answer: undefined, error }),
    );
    await server.stop();
    return { ...ended, seen: server.seen };
  };

  test('a transient failure is retried with the same key', async () => {
    const busy = problem('busy', 503);
    const { answer, seen } = await attempt([busy, cut, problem('unknown-outcome', 504), json(200, { ok: true })]);
    assert.deepEqual(answer, { ok: true });
    assert.equal(seen.length, 4);
    const keys = new Set(seen.map((request) => request.headers['idempotency-key']));
    assert.equal(keys.size, 1);
    assert.match(String([...keys][0]), /^client-[0-9a-f]{32}$/);
  });

  test('a refusal is not retried and has its class', async () => {
    for (const [type, status, expected] of [
      ['refused', 409, RefusedError],
      ['already-settled', 409, AlreadySettledError],
      ['invalid', 400, InvalidError],
      ['unauthorized', 401, UnauthorizedError],
      ['unknown-scope', 404, UnknownScopeError],
      ['changed', 412, ChangedError],
    ] as const) {
      const { error, seen } = await attempt([problem(type, status, { hint: 'do this', request_id: 'r-1' })]);
      assert.ok(error instanceof expected, type);
      assert.deepEqual([error.type, error.status, error.hint, error.requestId], [type, status, 'do this', 'r-1']);
      assert.equal(seen.length, 1, type);
    }
  });

  test('without a key, a request that may have been executed is not repeated', async () => {
    const { error, seen } = await attempt([cut], { attempts: 1 });
    assert.ok(error instanceof UnknownOutcomeError);
    assert.equal(error.idempotencyKey, undefined);
    assert.equal(seen.length, 1);
    assert.equal(seen[0]?.headers['idempotency-key'], undefined);
  });

  test('Retry-After delays a retry beyond the timeout, so that the problem is returned', async () => {
    const { error, seen } = await attempt([problem('overloaded', 503, {}, { 'retry-after': '3600' })]);
    assert.ok(error instanceof OverloadedError);
    assert.equal(seen.length, 1);
  });

  test('a date in Retry-After is ignored', async () => {
    const date = { 'retry-after': 'Wed, 21 Oct 2099 07:28:00 GMT' };
    const { answer, seen } = await attempt([problem('overloaded', 503, {}, date), json(200, { ok: true })]);
    assert.deepEqual(answer, { ok: true });
    assert.equal(seen.length, 2);
  });

  test('an answer that is not from Bursar is unreadable', async () => {
    const page = (response: import('node:http').ServerResponse) => response.writeHead(404).end('<html>');
    assert.ok((await attempt([page])).error instanceof UnreadableError);
    const notJson = (response: import('node:http').ServerResponse) => response.writeHead(200).end('<html>');
    assert.ok((await attempt([notJson])).error instanceof UnreadableError);
    const gateway = (response: import('node:http').ServerResponse) => response.writeHead(502).end('bad gateway');
    const { answer, seen } = await attempt([gateway, json(200, { ok: 1 })]);
    assert.deepEqual([answer, seen.length], [{ ok: 1 }, 2]);
  });

  test('a server that does not run is unreachable', async () => {
    const server = await Scripted.start(json(200, {}));
    await server.stop();
    const client = new Bursar({ url: server.url, attempts: 2 });
    const error = await client.budgets.credit('a', { amount: 1, reason: 'x' }).catch((error) => error);
    assert.ok(error instanceof UnreachableError, String(error));
    assert.match(error.message, /ECONNREFUSED.*nothing was changed/);
  });

  test('a call that gets no answer ends after its timeout', async () => {
    const server = await Scripted.start(() => undefined);
    const client = new Bursar({ url: server.url });
    const error = await client.jobs.find('job_1', { timeoutMs: 50 }).catch((error) => error);
    assert.ok(error instanceof UnreachableError);
    await server.stop();
  });

  test('a signal aborts a call and its retries', async () => {
    const server = await Scripted.start(() => undefined);
    const client = new Bursar({ url: server.url });
    const abort = new AbortController();
    const call = client.jobs.find('job_1', { signal: abort.signal });
    const reason = new Error('enough');
    setTimeout(() => abort.abort(reason), 20);
    await assert.rejects(call, (error) => error === reason);
    await assert.rejects(client.jobs.find('job_1', { signal: abort.signal }), (error) => error === reason);
    await server.stop();
    assert.ok(server.seen.length <= 1);
  });

  test('names are escaped, and the token is sent but not printed', async () => {
    const server = await Scripted.start(json(200, {}));
    const client = new Bursar({ url: `${server.url}/`, token: 'secret-token', tenant: 'acme' });
    await client.budgets.find('a/b c?%');
    assert.throws(() => client.budgets.find('..'), ArgumentError);
    await server.stop();
    assert.deepEqual(
      server.seen.map((request) => request.path),
      ['/v1/budgets/a%2Fb%20c%3F%25'],
    );
    assert.equal(server.seen[0]?.headers.authorization, 'Bearer secret-token');
    assert.equal(server.seen[0]?.headers['bursar-tenant'], 'acme');
    assert.doesNotMatch(inspect(client, { depth: 9 }) + JSON.stringify(client), /secret-token/);
  });

  test('the past is asked for by a time, a date or a position', async () => {
    const server = await Scripted.start(json(200, {}));
    const client = new Bursar({ url: server.url });
    await client.budgets.find('a', { at: new Date('2026-11-15T10:00:00Z') });
    await client.holds.find('b', { at: 1200 });
    await client.blobs.meta('c', { at: '2026-11-15T10:00:00Z' });
    await client.jobs.find('d');
    await server.stop();
    assert.deepEqual(
      server.seen.map((request) => decodeURIComponent(request.path ?? '')),
      ['/v1/budgets/a?at=2026-11-15T10:00:00.000Z', '/v1/holds/b?at=1200', '/v1/blobs/c/meta?at=2026-11-15T10:00:00Z', '/v1/jobs/d'],
    );
  });

  test('invalid settings are refused', () => {
    for (const url of ['', 'localhost:1', 'ftp://a', 'http://u:p@a', 'http://a/?b=c']) {
      assert.throws(() => new Bursar({ url }), ArgumentError, url);
    }
    assert.throws(() => new Bursar({ url: 'http://a', token: 'a\nb' }), ArgumentError);
  });
});

describe('a real server', () => {
  let server: Server;
  let bursar: Bursar;
  before(async () => {
    server = await Server.start();
    bursar = server.client();
  });
  after(() => server.stop());

  const budget = (scope: string, amount = 1_000) => bursar.budgets.define(scope, { limits: [{ amount, window: 'lifetime' }] });
  const balance = async (scope: string) => {
    const { balances } = await bursar.budgets.find(scope);
    return [balances?.[0]?.posted, balances?.[0]?.held];
  };

  test('budgets: define, credit, freeze, list, spent, history, delete', async () => {
    await budget('b:one');
    await budget('b:two');
    assert.equal((await bursar.budgets.freeze('b:one', { reason: 'audit' })).frozen, true);
    assert.equal((await bursar.budgets.unfreeze('b:one')).frozen, false);
    await bursar.commands.submit({ charges: [{ scope: 'b:one', amount: 70 }] });
    await bursar.budgets.credit('b:one', { amount: 20, reason: 'refund' });
    assert.equal((await bursar.budgets.spent('b:one')).spent, 50);
    assert.equal((await bursar.budgets.series('b:one', { steps: 4 })).steps.length, 4);
    const scopes = [];
    for await (const item of bursar.budgets.all({ prefix: 'b:', limit: 1 })) scopes.push(item.scope);
    assert.deepEqual(scopes, ['b:one', 'b:two']);
    assert.equal((await bursar.budgets.all({ prefix: 'b:', limit: 1 })).items.length, 1);
    const kinds = [];
    for await (const event of bursar.budgets.history('b:one')) kinds.push(event.kind);
    assert.ok(kinds.length >= 4, kinds.join());
    await bursar.budgets.delete('b:two');
    assert.equal((await bursar.budgets.find('b:two')).limits, undefined);
  });

  test('ifMatch refuses a change of an object that has changed', async () => {
    const read = await budget('etag');
    const { etag } = responseMeta(read);
    assert.ok(etag);
    await bursar.budgets.define('etag', { limits: [{ amount: 5, window: 'lifetime' }] }, { ifMatch: etag });
    const again = bursar.budgets.define('etag', { limits: [{ amount: 6, window: 'lifetime' }] }, { ifMatch: etag });
    await assert.rejects(again, ChangedError);
  });

  test('a repeated command with its key is replayed', async () => {
    await budget('replay');
    const submit = () => bursar.commands.submit({ charges: [{ scope: 'replay', amount: 10 }] }, { idempotencyKey: 'order-7' });
    const first = await submit();
    const second = await submit();
    assert.equal(second.id, first.id);
    assert.deepEqual([responseMeta(first).replayed, responseMeta(second).replayed], [false, true]);
    assert.deepEqual(await balance('replay'), [10, 0]);
    assert.equal((await bursar.commands.find(first.id as string)).id, first.id);
  });

  test('a hold is committed once and released when its block fails', async () => {
    await budget('hold');
    {
      await using hold = await bursar.hold('hold', 100);
      assert.deepEqual(await balance('hold'), [0, 100]);
      assert.equal((await hold.commit(30)).state, 'committed');
      await assert.rejects(hold.commit(30), HoldSettledError);
      await assert.rejects(hold.release(), HoldSettledError);
    }
    assert.deepEqual(await balance('hold'), [30, 0]);
    await assert.rejects(async () => {
      await using _hold = await bursar.hold([{ scope: 'hold', amount: 100 }], { ttlMs: 60_000, reason: 'test' });
      throw new Error('the work failed');
    }, /the work failed/);
    assert.deepEqual(await balance('hold'), [30, 0]);
    const hold = await bursar.hold('hold', 10);
    await hold.extend(1_000);
    assert.equal((await bursar.holds.find(hold.id)).state, 'held');
    const listed = [];
    for await (const item of bursar.holds.all('hold')) listed.push(item.id);
    assert.deepEqual(listed, [hold.id]);
    await hold.release();
    assert.equal((await bursar.holds.find(hold.id)).state, 'released');
  });

  test('a commit that fails is repeated with the same key, and its block does not release the hold', async () => {
    await budget('retry');
    let fail = true;
    const flaky = server.client({
      attempts: 1,
      fetch: async (input, init) => {
        const answer = await fetch(input, init);
        if (fail && String(input).endsWith('/commit')) throw new TypeError('the connection broke');
        return answer;
      },
    });
    {
      await using hold = await flaky.hold('retry', 100);
      await assert.rejects(hold.commit(40), UnknownOutcomeError);
      await assert.rejects(hold.commit(41), HoldSettledError);
      fail = false;
      await hold.commit(40);
    }
    assert.deepEqual(await balance('retry'), [40, 0]);
  });

  test('a hold that expires charges what it says, and a late commit corrects it', async () => {
    await budget('expiry');
    const hold = await bursar.hold('expiry', 100, { ttlMs: 1_000, onExpiry: { charge: 70 } });
    await eventually(async () => (await balance('expiry'))[0] === 70);
    assert.deepEqual(await balance('expiry'), [70, 0]);
    await hold.commit(30);
    assert.deepEqual(await balance('expiry'), [30, 0]);
  });

  test('a refusal names the limit', async () => {
    await budget('small', 10);
    const error = await bursar.hold('small', 11).catch((error) => error);
    assert.ok(error instanceof RefusedError);
    const [violation] = error.violations;
    assert.ok(violation?.kind === 'limit');
    assert.deepEqual([violation.scope, violation.limit, violation.available, violation.possible], ['small', 10, 10, false]);
  });

  test('a check charges the quota of a caller once, or is refused', async () => {
    await bursar.meter.setLimit({ agent_id: 'alice', limits: [{ amount: 20, window: 'lifetime' }] });
    const check = () => bursar.meter.check({ agent_id: 'alice', cost: 7 }, { idempotencyKey: 'request-7' });
    const [first, second] = [await check(), await check()];
    assert.deepEqual([first.admitted, first.cost, first.remaining, first.limit], [true, 7, 13, 20]);
    assert.deepEqual([second.remaining, responseMeta(second).replayed], [13, true]);
    const operation = { method: 'POST', path: '/claims', payload_bytes: 10 };
    assert.equal((await bursar.meter.check({ agent_id: 'alice', operation })).cost, 1);
    const error = await bursar.meter.check({ agent_id: 'alice', cost: 13 }).catch((error) => error);
    assert.ok(error instanceof QuotaExceededError, String(error));
    assert.deepEqual([error.transient, error.violations[0]?.kind, error.retryAfterMs], [false, 'limit', undefined]);
    // By default a caller has 10,000 units an hour.
    await bursar.meter.check({ agent_id: 'bob', cost: 10_000 });
    const over = await bursar.meter.check({ agent_id: 'bob', cost: 1 }).catch((error) => error);
    assert.ok(over instanceof QuotaExceededError && (over.retryAfterMs ?? 0) > 0, String(over));
    const quota = await bursar.meter.quota('alice');
    assert.deepEqual([quota.agent_id, quota.used, quota.remaining], ['alice', 8, 12]);
  });

  test('jobs, queues, schedules, grants, journal and credentials', async () => {
    await bursar.queues.define('tasks', { retry: { max_attempts: 2 } });
    const job = await bursar.jobs.enqueue({ queue: 'tasks', kind: 'a', payload: { n: 1 }, delay_ms: 60_000 });
    assert.equal((await bursar.jobs.find(job.id)).state, 'scheduled');
    await bursar.jobs.edit(job.id, { priority: 3 });
    const ended = bursar.jobs.wait(job.id);
    assert.equal((await bursar.jobs.cancel(job.id, { reason: 'typo' })).state, 'cancelled');
    assert.equal((await ended).state, 'cancelled');
    assert.equal((await bursar.jobs.wait(job.id)).state, 'cancelled', 'a job that has ended is returned at once');
    await assert.rejects(bursar.jobs.wait('job_00000000000000000000000000'), NotFoundError);
    const made = await bursar.jobs.enqueueAll([1, 2, 3].map((n) => ({ queue: 'tasks', kind: 'b', payload: n })));
    assert.equal(made.jobs.length, 3);
    const listed = [];
    for await (const item of bursar.jobs.all({ queue: 'tasks', kind: 'b', limit: 2 })) listed.push(item.payload);
    assert.deepEqual(listed, [1, 2, 3]);
    await bursar.queues.pause('tasks');
    assert.equal((await bursar.queues.find('tasks')).paused, true);
    await bursar.queues.resume('tasks');

    await bursar.schedules.define('daily', { cron: '@daily', queue: 'tasks', kind: 'report' });
    const ran = await bursar.schedules.run('daily');
    assert.equal((await bursar.jobs.find(ran.id)).kind, 'report');
    await bursar.schedules.delete('daily');
    await assert.rejects(bursar.schedules.find('daily'), NotFoundError);

    const grant = await bursar.grants.mint({ purpose: 'upload', subject: 's-1', ttl_ms: 60_000 });
    assert.ok(grant.token);
    const redeem = [{ token: grant.token, purpose: 'upload', subject: 's-1' }];
    assert.equal((await bursar.commands.submit({ redeem })).grants.length, 1);
    await assert.rejects(bursar.commands.submit({ redeem }), RefusedError);

    const kinds = new Set<string>();
    for await (const event of bursar.journal.all({ limit: 2 })) kinds.add(event.kind);
    assert.ok(kinds.has('job.enqueued'), [...kinds].join());

    const key = await bursar.keys.create({ name: 'reader', role: 'viewer' });
    const reader = server.client({ token: key.token as string });
    assert.equal((await reader.whoami()).role, 'viewer');
    await bursar.keys.revoke(key.id);
    await assert.rejects(reader.whoami(), UnauthorizedError);
    assert.equal((await bursar.verify()).ok, true);
  });
});
