/** The programs that the guides quote, as the packages' users run them: with the built package. */

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import type { Bursar } from '../src/index.js';
import { answerCost, Provider } from './provider.js';
import { eventually, OPERATOR, Server } from './support.js';

const EXAMPLES = join(import.meta.dirname, '../../examples');

let server: Server;
let bursar: Bursar;
before(async () => {
  server = await Server.start();
  bursar = server.client();
});
after(() => server.stop());

/** Starts an example. */
function start(name: string, env: Record<string, string> = {}) {
  const all = { ...process.env, BURSAR_SERVER: server.url, BURSAR_TOKEN: OPERATOR, ...env };
  const child = spawn(process.execPath, [join(EXAMPLES, `${name}.js`)], { env: all, stdio: ['ignore', 'pipe', 'pipe'] });
  const example = { child, output: '', ended: new Promise<number | null>((done) => child.once('exit', done)) };
  for (const stream of [child.stdout, child.stderr]) stream.setEncoding('utf8').on('data', (text: string) => (example.output += text));
  process.once('exit', () => child.kill('SIGKILL'));
  return example;
}

test('worker', async () => {
  const example = start('worker');
  assert.equal(await example.ended, 0, example.output);
  assert.match(example.output, /https:\/\/videos\.example\/job_/);
  assert.equal((await bursar.budgets.spent('customer:7')).spent, 420);
});

test('media_pipeline', async () => {
  const example = start('media_pipeline');
  assert.equal(await example.ended, 0, example.output);
  assert.match(example.output, /succeeded \[ \{ scope: 'customer:7', amount: 45 \} \] A QUIET HARBOUR/);
});

test('first_hold', async () => {
  const example = start('first_hold');
  assert.equal(await example.ended, 0, example.output);
  assert.equal(example.output.trim(), '42000');
});

test('agent_fleet', async () => {
  const provider = await Provider.start();
  const cap = 60 * answerCost('gpt-5-mini');
  const env = { OPENAI_API_KEY: 'k', OPENAI_BASE_URL: `${provider.url}/v1`, FLEET_CAP: String(cap) };
  const example = start('agent_fleet', env);
  assert.equal(await example.ended, 0, example.output);
  await provider.stop();
  const { spent } = await bursar.budgets.spent('fleet');
  assert.equal(spent, provider.billed, example.output);
  assert.ok(spent > 0 && spent <= cap, `${spent} of ${cap}`);
  assert.match(example.output, new RegExp(`${provider.calls.length} steps, ${spent} of ${cap} micro-dollars spent`));
});

test('express_endpoint', async () => {
  await bursar.budgets.define('customer:9', { limits: [{ amount: 10_000, window: 'lifetime' }] });
  const example = start('express_endpoint', { PORT: '0' });
  const port = await eventually(() => /port: (\d+)/.exec(example.output)?.[1]);
  const url = `http://127.0.0.1:${port}`;
  const order = async (seconds: number, key: string) => {
    const headers = { 'content-type': 'application/json', 'idempotency-key': key };
    const answer = await fetch(`${url}/customers/9/videos`, { method: 'POST', headers, body: JSON.stringify({ prompt: 'a harbour', seconds }) });
    return { status: answer.status, body: (await answer.json()) as Record<string, unknown> };
  };
  const first = await order(6, 'order-1');
  assert.equal(first.status, 202);
  assert.deepEqual(await order(6, 'order-1'), first);
  const done = await eventually(async () => {
    const job = await (await fetch(`${url}/videos/${first.body.job}`)).json();
    return job.state === 'succeeded' && job;
  });
  assert.deepEqual(done.cost, [{ scope: 'customer:9', amount: 4_200 }]);
  const refused = await order(6, 'order-2');
  assert.equal(refused.status, 402);
  assert.equal((refused.body.violations as { available: number }[])[0]?.available, 5_800);
  example.child.kill('SIGTERM');
  assert.equal(await example.ended, 0, example.output);
});

test('express_quota', async () => {
  await bursar.meter.setLimit({ agent_id: 'quota-1', limits: [{ amount: 15, window: 'lifetime' }] });
  const example = start('express_quota', { PORT: '0' });
  const port = await eventually(() => /port: (\d+)/.exec(example.output)?.[1]);
  const send = (method: string, agent: Record<string, string> = { 'x-agent-id': 'quota-1' }, path = '/claims') =>
    fetch(`http://127.0.0.1:${port}${path}`, { method, headers: agent });
  const first = await send('POST');
  assert.deepEqual([first.status, first.headers.get('x-quota-remaining'), first.headers.get('x-quota-limit')], [200, '5', '15']);
  const over = await send('POST');
  assert.deepEqual([over.status, over.headers.get('retry-after')], [429, null]);
  assert.equal(((await over.json()) as { violations: { available: number }[] }).violations[0]?.available, 5);
  assert.equal((await send('GET')).headers.get('x-quota-remaining'), '4');
  assert.equal((await send('GET', {})).status, 401);
  assert.equal((await send('GET', { 'x-agent-id': 'x'.repeat(300) })).status, 400);
  assert.equal((await send('GET', {}, '/livez')).status, 200);
  // A caller that was never seen gets the default quota; a refusal of it says when to come back.
  await bursar.meter.check({ agent_id: 'quota-2', cost: 10_000 });
  const hourly = await send('GET', { 'x-agent-id': 'quota-2' });
  assert.ok(hourly.status === 429 && Number(hourly.headers.get('retry-after')) > 0, `${hourly.status}`);
  example.child.kill('SIGTERM');
  assert.equal(await example.ended, 0, example.output);
});
