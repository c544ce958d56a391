import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import type { ServerResponse } from 'node:http';
import { test } from 'node:test';
import { Bursar, createWorker, InvalidError, NotFoundError, UnknownOutcomeError } from '../src/index.js';
import { JobContext } from '../src/worker/context.js';
import { completed } from '../src/worker/finish.js';
import { cut, json, problem, Scripted } from './scripted.js';
import { OPERATOR, PATIENCE_MS, Server } from './support.js';

const BLOB = { id: 'blob_1', namespace: 'media', state: 'live', size: 5 };

test('bytes are sent with their type, name, metadata and digest', async () => {
  const server = await Scripted.start(json(201, BLOB));
  const { blobs } = new Bursar({ url: server.url, token: 't' });
  const sha256 = createHash('sha256').update('hällo').digest('hex');
  const options = { namespace: 'media', filename: 'ä b.txt', contentType: 'text/plain', metadata: { k: [1] }, sha256 };
  assert.equal((await blobs.put('hällo', options)).id, 'blob_1');
  await blobs.put(new Blob(['x'], { type: 'image/png' }));
  await blobs.put(new Uint8Array([1, 2]).buffer);
  await server.stop();
  const [first, second, third] = server.seen;
  assert.equal(first?.body, 'hällo');
  const query = new URL(first?.path ?? '', server.url).searchParams;
  assert.deepEqual(Object.fromEntries(query), { namespace: 'media', filename: 'ä b.txt', metadata: '{"k":[1]}' });
  assert.equal(first?.headers['content-type'], 'text/plain');
  assert.equal(first?.headers['repr-digest'], `sha-256=:${Buffer.from(sha256, 'hex').toString('base64')}:`);
  assert.equal(first?.headers['content-length'], '6');
  assert.equal(first?.headers['idempotency-key'], undefined);
  assert.equal(second?.headers['content-type'], 'image/png');
  assert.deepEqual([...(third?.bytes ?? [])], [1, 2]);
});

test('bytes are sent again after a failure, and a stream is not', async () => {
  const server = await Scripted.start(cut, problem('busy', 503), json(200, BLOB), cut, json(201, BLOB));
  const { blobs } = new Bursar({ url: server.url });
  await blobs.put(new Uint8Array(100_000));
  assert.equal(server.seen.length, 3);
  async function* parts() {
    for (let n = 0; n < 20; n += 1) yield new Uint8Array(10_000).fill(n);
  }
  await assert.rejects(blobs.put(parts()), UnknownOutcomeError);
  await blobs.put(parts());
  await server.stop();
  assert.equal(server.seen.length, 5);
  assert.equal(server.seen[4]?.headers['transfer-encoding'], 'chunked');
  assert.equal(server.seen[4]?.bytes.length, 200_000);
});

test('a stream that fails while it is read fails the upload', async () => {
  const server = await Scripted.start(json(201, BLOB));
  async function* parts() {
    yield new Uint8Array(10);
    throw new Error('the disk is gone');
  }
  await assert.rejects(new Bursar({ url: server.url }).blobs.put(parts()));
  await server.stop();
  assert.equal(server.seen.length, 0);
});

test('bytes are read as a stream, as text, and in part', async () => {
  const content = (status: number, text: string) => (response: ServerResponse) => {
    response.writeHead(status, { 'content-type': 'text/plain', etag: '"abc"', 'content-length': Buffer.byteLength(text) }).end(text);
  };
  const server = await Scripted.start(
    content(200, 'hello'),
    problem('overloaded', 503),
    content(206, 'ell'),
    problem('not-found', 404),
    content(200, 'x'),
  );
  const { blobs } = new Bursar({ url: server.url });
  const whole = await blobs.get('blob_1');
  assert.deepEqual([whole.contentType, whole.size, whole.etag], ['text/plain', 5, '"abc"']);
  let text = '';
  for await (const part of whole.stream().pipeThrough(new TextDecoderStream())) text += part;
  assert.equal(text, 'hello');
  assert.equal(await (await blobs.get('blob_1', { range: { start: 1, end: 3 } })).text(), 'ell');
  assert.equal(server.seen[2]?.headers.range, 'bytes=1-3');
  await assert.rejects(blobs.get('blob_2'), NotFoundError);
  assert.deepEqual([...(await (await blobs.get('blob_1')).bytes())], [120]);
  await server.stop();
});

test('a signal ends the reading of a blob', async () => {
  const server = await Scripted.start((response) => void response.writeHead(200).write('first'));
  const abort = new AbortController();
  const content = await new Bursar({ url: server.url }).blobs.get('blob_1', { signal: abort.signal });
  const reading = content.text();
  abort.abort(new Error('enough'));
  await assert.rejects(reading);
  await server.stop();
});

test('the other routes', async () => {
  const none = (response: ServerResponse) => response.writeHead(204).end();
  const server = await Scripted.start(
    json(200, BLOB),
    json(200, { items: [BLOB] }),
    none,
    none,
    none,
    json(200, { url: 'u', expires_at: 't' }),
    problem('invalid', 400),
  );
  const { blobs, namespaces } = new Bursar({ url: server.url });
  await blobs.meta('blob_1');
  assert.equal((await blobs.all({ namespace: 'media' })).items.length, 1);
  await blobs.refer('blob_1', 'a/b');
  await blobs.unrefer('blob_1', 'a/b');
  await blobs.delete('blob_1');
  assert.equal((await blobs.link('blob_1', 1_000)).url, 'u');
  await assert.rejects(namespaces.define('media', { bytes_max: -1 }), InvalidError);
  await server.stop();
  assert.deepEqual(
    server.seen.map(({ method, path }) => `${method} ${path}`),
    [
      'GET /v1/blobs/blob_1/meta',
      'GET /v1/blobs?namespace=media',
      'PUT /v1/blobs/blob_1/references/a%2Fb',
      'DELETE /v1/blobs/blob_1/references/a%2Fb',
      'DELETE /v1/blobs/blob_1',
      'POST /v1/blobs/blob_1/link',
      'PUT /v1/namespaces/media',
    ],
  );
});

test('a job refers to the blobs that its handler has stored', async () => {
  const server = await Scripted.start(json(201, BLOB));
  const job = { id: 'job_1', queue: 'q', kind: 'k', payload: null, attempt: 1, lease: { fence: 3, worker: 'w' } };
  const ctx = new JobContext(new Bursar({ url: server.url }), job);
  await ctx.blobs.put('hello', { namespace: 'media' });
  await server.stop();
  assert.deepEqual(JSON.parse(completed(job, ctx, { done: true }).text), { id: 'job_1', fence: 3, blobs: ['blob_1'], result: { done: true } });
});

test('a real server stores and streams blobs, and a job keeps those that it made', async () => {
  const server = await Server.start();
  const { blobs, jobs } = server.client();
  const small = await blobs.put('hello', { namespace: 'media', filename: 'ä.txt', contentType: 'text/plain', metadata: { k: 1 } });
  assert.deepEqual([small.state, small.size, small.filename, small.content_type], ['live', 5, 'ä.txt', 'text/plain']);
  assert.equal((await blobs.put('hello', { namespace: 'media' })).id, small.id, 'the same bytes are the same blob');
  assert.equal(await (await blobs.get(small.id, { range: { start: 1, end: 3 } })).text(), 'ell');
  async function* parts() {
    for (let n = 0; n < 30; n += 1) yield new Uint8Array(100_000).fill(n);
  }
  const large = await blobs.put(parts(), { namespace: 'media' });
  const digest = createHash('sha256');
  for await (const part of (await blobs.get(large.id)).stream()) digest.update(part);
  assert.deepEqual([large.size, large.sha256], [3_000_000, digest.digest('hex')]);
  await blobs.refer(small.id, 'a/b');
  assert.deepEqual((await blobs.meta(small.id)).references, ['a/b']);
  await blobs.delete(large.id);
  await assert.rejects(blobs.get(large.id), NotFoundError);
  await blobs.restore(large.id);

  const link = await blobs.link(small.id, 60_000);
  assert.equal(await (await fetch(link.url as string)).text(), 'hello');
  assert.deepEqual(
    (await blobs.links()).items.map(({ id, blob }) => [id, blob]),
    [[link.id, small.id]],
  );
  await blobs.revokeLink(link.id);
  assert.ok((await fetch(link.url as string)).status >= 400);

  const bytes = new TextEncoder().encode('sent to the storage');
  const sha256 = createHash('sha256').update(bytes).digest('hex');
  const signed = await blobs.presign({ namespace: 'media', content_type: 'text/plain', size: bytes.length, sha256 });
  const { method, url, headers } = signed.upload ?? assert.fail('the bytes are new');
  assert.equal((await fetch(url as string, { method, headers, body: bytes })).ok, true);
  assert.equal((await blobs.commit(signed.blob.id)).state, 'live');
  assert.equal(await (await blobs.get(signed.blob.id)).text(), 'sent to the storage');
  const again = await blobs.presign({ namespace: 'media', content_type: 'text/plain', size: bytes.length, sha256 });
  assert.deepEqual([again.blob.id, again.upload ?? null], [signed.blob.id, null], 'the bytes are there');
  assert.deepEqual([(await blobs.gc({ dry_run: true })).dry_run, (await blobs.gc()).failed], [true, 0]);

  const worker = createWorker({ url: server.url, token: OPERATOR, queues: ['q'] });
  worker.on('make', async (_, ctx) => (await ctx.blobs.put(`made from ${await (await ctx.blobs.get(small.id)).text()}`)).id);
  const running = await worker.start();
  const { id } = await jobs.enqueue({ queue: 'q', kind: 'make' });
  const job = await jobs.wait(id, { signal: AbortSignal.timeout(PATIENCE_MS) });
  assert.equal(job.state, 'succeeded', JSON.stringify(job.error));
  assert.equal(await (await blobs.get(job.result as string)).text(), 'made from hello');
  assert.equal((await blobs.meta(job.result as string)).jobs, 1);
  await running.drain();
  await server.stop();
});
