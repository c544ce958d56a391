import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { describe, test } from 'node:test';
import { inspect } from 'node:util';
import { Bursar, QuotaExceededError, SignatureRefusedError, Signer, signedFetch } from '../src/index.js';
import { json, problem, Scripted } from './scripted.js';
import { ROOT, Server } from './support.js';

const SEED = '07'.repeat(32);

interface Vector {
  name: string;
  seed: string;
  agent: string | null;
  method: string;
  url: string;
  body: string;
  created: number;
  nonce: string;
  headers: Record<string, string>;
}

describe('signatures', () => {
  test('all languages sign alike', async () => {
    const vectors: Vector[] = JSON.parse(readFileSync(resolve(ROOT, 'tests/signatures/vectors.json'), 'utf8'));
    assert.ok(vectors.length > 3);
    for (const { name, seed, agent, headers, ...parts } of vectors) {
      const signer = await Signer.fromSeed(seed, agent === null ? {} : { agent });
      assert.deepEqual(await signer.sign(parts), headers, name);
    }
  });

  test('every attempt has a signature of its own', async () => {
    const server = await Scripted.start(problem('busy', 503), json(200, { ok: true }));
    const signer = await Signer.fromSeed(SEED, { agent: 'agent:bot' });
    const client = new Bursar({ url: server.url, token: 'secret-token', signer });
    await client.budgets.credit('a', { amount: 1, reason: 'x' });
    await server.stop();
    const inputs = server.seen.map((request) => String(request.headers['signature-input']));
    assert.equal(inputs.length, 2);
    assert.notEqual(inputs[0], inputs[1]);
    for (const { headers } of server.seen) {
      assert.equal(headers['x-agent-id'], 'agent:bot');
      assert.equal(headers.authorization, 'Bearer secret-token');
      assert.match(String(headers['content-digest']), /^sha-256=:.{44}:$/);
      assert.match(String(headers['signature-input']), /"content-digest"\);created=\d+;nonce="[0-9a-f]{32}"/);
    }
  });

  test('wrong keys and names are refused, and a printed signer has no private key', async () => {
    for (const seed of ['', '0', 'zz'.repeat(32), '07'.repeat(31), new Uint8Array(31)]) {
      await assert.rejects(Signer.fromSeed(seed), /seed: must be 32 bytes/);
    }
    for (const agent of ['', ' a', 'a ', 'é', 'x'.repeat(250)]) {
      await assert.rejects(Signer.fromSeed(SEED, { agent }), /agent: must be/);
    }
    const signer = await Signer.fromSeed(SEED);
    assert.equal(signer.agent, signer.publicKey);
    await assert.rejects(signer.sign({ method: 'GET', url: 'http://a/', nonce: 'short' }), /nonce: must be/);
    assert.ok(!inspect(signer, { depth: 9 }).includes(SEED));
  });
});

/** A server whose agents must sign, with a quota of three requests. */
async function signedServer(signer: Signer): Promise<Server> {
  return Server.start(`
    [meter]
    signed = "required"
    quota = [{ amount = 3, window = "lifetime" }]
    [meter.signatures]
    authorities = ["*"]
    [meter.signatures.agents]
    "agent:bot" = [{ key = "${signer.publicKey}" }]
  `);
}

describe('a server that requires signatures', () => {
  test('accepts what the client signs, once, and nothing else', async () => {
    const signer = await Signer.fromSeed(SEED, { agent: 'agent:bot' });
    const server = await signedServer(signer);
    const token = String((await server.client().keys.create({ name: 'bot', role: 'agent' })).token);
    const url = `${server.url}/v1/commands`;
    const body = JSON.stringify({ charges: [{ scope: 'é', amount: 1, limits: [{ amount: 9, window: 'lifetime' }] }] });
    const send = async (signed: Record<string, string>, sent = body, to = url) => {
      const headers = { ...signed, authorization: `Bearer ${token}`, 'content-type': 'application/json' };
      const response = await fetch(to, { method: 'POST', headers, body: sent });
      return [response.status, (await response.json()).reason];
    };
    try {
      const sign = () => signer.sign({ method: 'POST', url, body });
      assert.deepEqual(await send({}), [401, 'unsigned']);
      const signed = await sign();
      assert.deepEqual(await send(await sign(), body.replace('"amount":1,', '"amount":2,')), [401, 'digest-mismatch']);
      assert.deepEqual(await send(await sign(), body, `${url}?a=b`), [401, 'wrong-signature']);
      assert.deepEqual(await send(signed), [201, undefined]);
      assert.deepEqual(await send(signed), [401, 'replayed']);

      const client = server.client({ token, signer });
      assert.equal((await client.whoami()).name, 'bot');
      // Any program can sign with a `fetch` of its own; a stream is read to be signed.
      const stream = new Blob([body]).stream();
      const init = {
        method: 'POST',
        body: stream,
        duplex: 'half',
        headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      };
      assert.equal((await signedFetch(signer)(url, init as RequestInit)).status, 201);
      await assert.rejects(
        (async () => {
          for (;;) await client.budgets.find('é');
        })(),
        QuotaExceededError,
      );
      const bare = server.client({ token });
      await assert.rejects(bare.budgets.find('é'), (error) => error instanceof SignatureRefusedError && error.reason === 'unsigned');
    } finally {
      await server.stop();
    }
  });
});
