/** What the tests of metered model calls share: a server, a provider, and for each test a scope of its own. */

import assert from 'node:assert/strict';
import { after, before, beforeEach } from 'node:test';
import type { Bursar } from '../src/index.js';
import type { MeterOptions, SettledCall } from '../src/models/index.js';
import { Provider } from './provider.js';
import { eventually, Server } from './support.js';

export let server: Server;
export let bursar: Bursar;
export let provider: Provider;
export let scope = '';
/** The calls that were settled, oldest first. */
export const settled: SettledCall[] = [];
let scopes = 0;

/** Starts the servers before the tests of a file, and stops them after. */
export function withServers(): void {
  before(async () => {
    [server, provider] = await Promise.all([Server.start(), Provider.start()]);
    bursar = server.client();
  });
  after(async () => {
    await Promise.all([server.stop(), provider.stop()]);
  });
  beforeEach(async () => {
    scopes += 1;
    scope = `agent:${scopes}`;
    settled.length = 0;
    provider.faults = [];
    provider.billed = 0;
    provider.calls.length = 0;
    provider.batches.clear();
    await budget(1_000_000_000);
  });
}

export const budget = (amount: number, of = scope) => bursar.budgets.define(of, { limits: [{ amount, window: 'lifetime' }] });

export async function balance(of = scope): Promise<{ posted: number; held: number }> {
  const [first] = (await bursar.budgets.find(of)).balances ?? [];
  assert.ok(first, `${of} has a balance`);
  return { posted: first.posted, held: first.held };
}

export const options = (more: Partial<MeterOptions> = {}) =>
  ({ bursar, scope, onSettled: (call: SettledCall) => settled.push(call), ...more }) as MeterOptions;

/** Waits until as many calls are settled, and checks how each was, and that their charges are the balance of the scope. */
export async function settledAs(...by: SettledCall['by'][]): Promise<SettledCall> {
  await eventually(() => settled.length >= by.length);
  assert.deepEqual(
    settled.map((call) => call.by),
    by,
  );
  return lastSettledAs(by.at(-1));
}

/** Waits until a call is settled, and checks how the last one was, and that the charges of all are the balance of the scope. */
export async function lastSettledAs(by: SettledCall['by'] | undefined): Promise<SettledCall> {
  const call = await eventually(() => settled.at(-1));
  assert.equal(call.by, by);
  assert.deepEqual(await balance(), { posted: settled.reduce((sum, { cost }) => sum + cost, 0), held: 0 });
  assert.ok(call.cost <= call.bound, `${call.cost} is above the bound ${call.bound}`);
  return call;
}

/** Returns a client that aborts as soon as the server has placed a hold. */
export function abortedOnceHeld(abort: AbortController): Bursar {
  const client = server.client();
  const place = client.hold.bind(client) as typeof client.hold;
  client.hold = (async (...args: Parameters<typeof client.hold>) => {
    const hold = await place(...args);
    abort.abort();
    return hold;
  }) as typeof client.hold;
  return client;
}
