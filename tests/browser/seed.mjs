// A busy company: budgets near and at their limits, jobs in every state, a schedule, grants and tokens.

const USD = 1_000_000;
const CENT = USD / 100;

/** Fills a new database and returns the ids that tests open. `history` spends before the last jobs come. */
export async function seed(server, history = opening) {
  const api = server.api();
  await budgets(api);
  await queues(api);
  await history(api);
  const blobs = await uploads(api);
  const jobs = await jobsInEveryState(api, blobs);
  const holds = await liveHolds(api);
  const grants = [];
  for (const subject of ['alice', 'bob', 'carol']) {
    grants.push(await api.post('/v1/grants', { purpose: 'upload', subject, ttl_ms: 3_600_000, payload: { asset: subject } }));
  }
  await api.delete(`/v1/grants/${grants[2].id}`);
  await api.put('/v1/schedules/nightly', { cron: '0 3 * * *', zone: 'Europe/Berlin', queue: 'reports', kind: 'report.daily' });
  await api.put('/v1/schedules/digest', { cron: '30 7 * * MON-FRI', queue: 'mail', kind: 'mail.digest', paused: true });
  const keys = {};
  for (const [name, role] of [['dana', 'admin'], ['shop', 'user'], ['robot', 'agent'], ['audit', 'viewer']]) {
    keys[role] = await server.key(name, role);
  }
  const old = await api.post('/v1/keys', { name: 'old-shop', role: 'user' });
  await api.delete(`/v1/keys/${old.id}`);
  await api.post('/v1/workers', { name: 'encoder', capabilities: { queues: ['media', 'mail'], kinds: ['video.*'] } });
  await api.post('/v1/budgets/acme%2Fsupport/freeze', { reason: 'invoice is disputed' });
  // What does not fit is refused.
  for (let number = 0; number < 3; number += 1) await api.send('POST', '/v1/commands', { charges: [{ scope: 'acme/research/scout', amount: CENT }] });
  return { jobs, holds, grants, keys, blobs, root: 'acme', exhausted: 'acme/research/scout', frozen: 'acme/support' };
}

async function budgets(api) {
  const define = (scope, limits, more = {}) => {
    const parent = scope.includes('/') ? scope.slice(0, scope.lastIndexOf('/')) : null;
    return api.budget(scope, { unit: 'usd', parent, limits, thresholds: [50, 80, 100], ...more });
  };
  const month = (amount) => ({ amount: amount * USD, window: 'month', zone: 'Europe/Berlin' });
  const day = (amount) => ({ amount: amount * USD, window: 'day' });
  const rolling = (amount) => ({ amount: amount * USD, window: 'rolling', length_ms: 3_600_000 });
  await define('acme', [month(4_000), day(150)]);
  await define('acme/research', [day(60)]);
  // The limit that does not reset keeps the budget exhausted when a test runs over midnight.
  await define('acme/research/scout', [day(5), { amount: 5 * USD, window: 'lifetime' }]);
  await define('acme/research/sage', [day(40), rolling(12)]);
  await define('acme/media', [day(80), month(2_000)]);
  await define('acme/media/pixel', [rolling(20)]);
  await define('acme/support', [rolling(12)]);
  await api.budget('tokens/gateway', { unit: 'tokens', limits: [{ amount: 500_000, window: 'bucket', refill: 10_000, length_ms: 3_600_000 }] });
}

async function opening(api) {
  for (const [scope, cents] of [['acme/research/scout', 310], ['acme/research/scout', 190], ['acme/research/sage', 890],
    ['acme/media/pixel', 730], ['acme/media', 2_400], ['acme/support', 410], ['acme/research/sage', 120]]) {
    await api.spend(scope, cents * CENT);
  }
  await api.spend('tokens/gateway', 123_456);
}

async function queues(api) {
  const retry = { backoff: 'fixed', delay_ms: 3_600_000, max_attempts: 3 };
  await api.put('/v1/queues/media', { concurrency: 8, retry });
  await api.put('/v1/queues/mail', { retry });
  await api.put('/v1/queues/reports', { retry });
  await api.put('/v1/queues/embed', { retry, rate: { amount: 600, per_ms: 60_000 }, key_concurrency: 2 });
}

/** Files: one that a job uses, one that it makes, one for an application, and a deleted one. */
async function uploads(api) {
  const video = Buffer.concat([Buffer.from('0000ftypqt  '), Buffer.alloc(2_500_000, 7)]);
  const source = await api.upload('harbour-at-dawn.mov', 'video/quicktime', video, { metadata: { customer: 7, camera: 'b' } });
  const made = await api.upload('harbour-at-dawn.mp4', 'video/mp4', Buffer.concat([Buffer.from('0000ftypisom'), Buffer.alloc(410_000, 3)]));
  const page = await api.upload('report <b>.html', 'text/html', '<script>alert(1)</script>', { namespace: 'reports' });
  await api.put(`/v1/blobs/${page}/references/report:42`, {});
  const deleted = await api.upload('old.txt', 'text/plain', 'of last year', { namespace: 'reports' });
  await api.delete(`/v1/blobs/${deleted}`);
  return { source, made, page, deleted };
}

async function jobsInEveryState(api, blobs) {
  const ids = {};
  const payload = { asset: 'harbour-7', seconds: 8, prompt: 'a harbour at dawn, slow pan' };
  // Succeeded, with a cost.
  for (let number = 0; number < 6; number += 1) {
    const last = number === 5;
    const used = last ? { blobs: [blobs.source] } : {};
    ids.succeeded = await api.order('acme/media/pixel', 40 * CENT, 'media', 'video.generate', { payload, tags: ['trial'], key: 'provider-a', ...used });
    const [job] = await api.lease('media', 'video.generate', { worker: `gpu-${1 + (number % 2)}` });
    await api.complete(job, { usage: [{ amount: (21 + number) * CENT }], result: { url: `/out/${number}.mp4` }, ...(last && { blobs: [blobs.made] }) });
  }
  // Dead, of two different errors.
  const errors = [['timeout', 'no answer from provider'], ['timeout', 'no answer from provider'], ['invalid', 'the prompt was rejected']];
  for (const [kind, message] of errors) {
    ids.dead = await api.enqueue('media', 'video.cut', { payload, tags: ['trial'] });
    const [job] = await api.lease('media', 'video.cut');
    await api.fail(job, kind, message, { retryable: false });
  }
  // Retried: the second attempt runs after the first one failed.
  ids.retried = await api.enqueue('mail', 'mail.send', { payload: { to: 'ada@example.com' } });
  const [first] = await api.lease('mail', 'mail.send', { worker: 'post-1' });
  await api.fail(first, 'smtp', '451 try again later', { retry_after_ms: 1 });
  const [second] = await api.lease('mail', 'mail.send', { worker: 'post-1' });
  await api.post(`/v1/jobs/${second.id}/progress`, { fence: second.lease.fence, percent: 40, message: 'sending' });
  // Between attempts.
  ids.waiting = await api.enqueue('mail', 'mail.bounce');
  const [bounced] = await api.lease('mail', 'mail.bounce', { worker: 'post-1' });
  await api.fail(bounced, 'smtp', '452 mailbox full');
  // Running, paid for by a hold.
  ids.running = await api.order('acme/media/pixel', 55 * CENT, 'media', 'video.render', { payload, metadata: { customer: 7 } });
  await api.lease('media', 'video.render', { worker: 'gpu-2' });
  // Awaiting budget: an attempt used up what the next one needs.
  await api.budget('acme/trial', { unit: 'usd', parent: 'acme', limits: [{ amount: 2 * USD, window: 'month' }] });
  ids.awaiting = await api.order('acme/trial', 150 * CENT, 'media', 'video.trial');
  const [trial] = await api.lease('media', 'video.trial');
  await api.fail(trial, 'timeout', 'no answer from provider', { usage: [{ amount: 120 * CENT }], retry_after_ms: 1 });
  // Cancelled, scheduled and queued.
  ids.cancelled = await api.enqueue('mail', 'mail.send', { payload: { to: 'old@example.com' } });
  await api.post(`/v1/jobs/${ids.cancelled}/cancel`, { reason: 'the address is wrong' });
  ids.scheduled = await api.enqueue('reports', 'report.weekly', { delay_ms: 86_400_000 });
  for (let number = 0; number < 12; number += 1) {
    ids.queued = await api.enqueue('embed', 'text.embed', { payload: { page: number }, priority: number % 3, key: `customer-${number % 4}` });
  }
  for (let number = 0; number < 3; number += 1) await api.enqueue('reports', 'report.daily', { payload: { day: number } });
  await api.post('/v1/queues/reports/pause', { reason: 'the database moves' });
  return ids;
}

async function liveHolds(api) {
  const ids = [];
  for (const [scope, cents] of [['acme/research/sage', 140], ['acme/media', 320], ['acme/research/sage', 40]]) {
    const placed = await api.post('/v1/holds', { charges: [{ scope, amount: cents * CENT }], ttl_ms: 3_000_000 });
    ids.push(placed.hold.id);
  }
  // An overrun: more is spent than was held.
  const over = await api.post('/v1/holds', { charges: [{ scope: 'acme/media', amount: 50 * CENT }], ttl_ms: 3_000_000 });
  await api.post(`/v1/holds/${over.hold.id}/commit`, { actual: 90 * CENT });
  return ids;
}
