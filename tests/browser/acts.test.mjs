// Acts of the pages take effect and are in the journal, with who did them and why.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, describe, test } from 'node:test';
import { Server, Visitor, launch } from './support.mjs';

const USD = 1_000_000;

describe('acts', () => {
  let server, browser, visitor, api;
  before(async () => {
    [server, browser] = await Promise.all([Server.start(), launch()]);
    api = server.api();
    await api.budget('acme', { unit: 'usd', limits: [{ amount: 50 * USD, window: 'lifetime' }] });
    await api.budget('acme/lab', { unit: 'usd', parent: 'acme', limits: [{ amount: 10 * USD, window: 'lifetime' }], thresholds: [80] });
    await api.spend('acme/lab', 4 * USD);
    await api.put('/v1/queues/media', { retry: { backoff: 'fixed', delay_ms: 3_600_000, max_attempts: 3 } });
    await api.put('/v1/queues/mail', {});
    visitor = await Visitor.signedIn(browser, server, await server.key('dana', 'admin'));
  });
  after(async () => {
    await browser.close();
    await server.stop();
  });

  /** Checks who is named by the newest event of a kind, and why. Returns the event. */
  async function journaled(kind, reason, stream = undefined) {
    const events = await api.journal(kind);
    const event = events.find((event) => !stream || event.stream.id === stream);
    assert.ok(event, `no ${kind} in the journal`);
    assert.equal(event.actor.id, 'dana', kind);
    if (reason !== undefined) assert.equal(event.reason, reason, kind);
    return event;
  }

  /** Enqueues a job and lets its only attempt fail for good. */
  async function deadJob(kind, error = 'the provider hung up') {
    const id = await api.enqueue('media', kind);
    const [job] = await api.lease('media', kind);
    await api.fail(job, 'provider', error, { retryable: false });
    return id;
  }

  test('a budget is frozen and unfrozen', async () => {
    await visitor.open('/budgets/acme%2Flab');
    await visitor.act('Freeze', { reason: 'runaway loop' });
    assert.match(await visitor.flash(), /acme\/lab is frozen/);
    assert.ok((await api.get('/v1/budgets/acme%2Flab')).frozen);
    await journaled('budget.frozen', 'runaway loop', 'acme/lab');
    await visitor.sees('#balances', 'Frozen by dana: runaway loop');
    await visitor.act('Unfreeze', { reason: 'loop is fixed' });
    assert.match(await visitor.flash(), /admits charges again/);
    assert.ok(!(await api.get('/v1/budgets/acme%2Flab')).frozen);
    await journaled('budget.unfrozen', 'loop is fixed', 'acme/lab');
  });

  test('limits are changed as they are written, and the rest of the budget stays', async () => {
    await visitor.open('/budgets/acme%2Flab');
    await visitor.act('Change limits', { limits: [['12.50', 'lifetime'], ['2', 'rolling:1h']], reason: 'autumn plan' });
    assert.match(await visitor.flash(), /limits of acme\/lab are changed/);
    const budget = await api.get('/v1/budgets/acme%2Flab');
    const limits = budget.limits.map(({ amount, window, length_ms }) => [amount, window, length_ms]);
    assert.deepEqual(limits, [[12_500_000, 'lifetime', undefined], [2 * USD, 'rolling', 3_600_000]]);
    assert.deepEqual([budget.parent, budget.unit, budget.thresholds], ['acme', 'usd', [80]]);
    await journaled('budget.defined', 'autumn plan', 'acme/lab');
    // What the form offers is what it accepts: sending it as it stands changes nothing.
    const values = (name) => visitor.page.locator(`form[action$="/limits"] [name=${name}]`).evaluateAll((inputs) => inputs.map((input) => input.value));
    assert.deepEqual(await values('amount'), ['12.50', '2.00', '']);
    assert.deepEqual(await values('window'), ['lifetime', 'rolling:1h', '']);
    await visitor.act('Change limits', { reason: 'no change' });
    assert.deepEqual((await api.get('/v1/budgets/acme%2Flab')).limits, budget.limits);
  });

  test('limits that cannot be read are refused with what to write, and change nothing', async () => {
    const before = await api.get('/v1/budgets/acme%2Flab');
    await visitor.open('/budgets/acme%2Flab');
    await visitor.act('Change limits', { limits: [['lots', 'day']] });
    const text = await visitor.flash();
    assert.ok(text.length > 10);
    assert.doesNotMatch(text, /i64|invalid digit|ParseInt/);
    assert.equal(await visitor.page.locator('.flash[role=alert]').count(), 1);
    assert.deepEqual((await api.get('/v1/budgets/acme%2Flab')).limits, before.limits);
  });

  test('a row of limits is added, emptied and removed', async () => {
    await visitor.open('/budgets/acme%2Flab');
    await visitor.page.locator('summary', { hasText: 'Change limits' }).click();
    const rows = visitor.page.locator('form[action$="/limits"] [data-row]');
    const before = await rows.count();
    await visitor.page.getByRole('button', { name: 'Add a limit' }).click();
    assert.equal(await rows.count(), before + 1);
    assert.ok(await rows.nth(before).locator('[name=amount]').evaluate((input) => input === document.activeElement && input.value === ''));
    while ((await rows.count()) > 1) await rows.first().getByRole('button', { name: 'Remove this limit' }).click();
    await rows.first().locator('[name=amount]').fill('7');
    await rows.first().getByRole('button', { name: 'Remove this limit' }).click();
    assert.equal(await rows.count(), 1, 'the last row stays');
    assert.equal(await rows.first().locator('[name=amount]').inputValue(), '');
  });

  test('limits are changed without a script', async () => {
    const plain = await Visitor.signedIn(browser, server, await server.key('plain', 'admin'), { javaScriptEnabled: false });
    await api.budget('plain', { unit: 'usd', limits: [{ amount: 10 * USD, window: 'day' }, { amount: 5 * USD, window: 'rolling', length_ms: 3_600_000 }] });
    await plain.open('/budgets/plain');
    await plain.page.locator('summary', { hasText: 'Change limits' }).click();
    const form = plain.page.locator('form[action$="/limits"]');
    assert.ok(!(await form.getByRole('button', { name: 'Add a limit' }).isVisible()), 'a button that needs a script');
    // An empty amount removes the first limit, and the spare row adds one.
    await form.locator('[name=amount]').nth(0).fill('');
    await form.locator('[name=amount]').nth(2).fill('2.5');
    await form.locator('[name=window]').nth(2).fill('month');
    await plain.submit(form.locator('.form-acts button'));
    const limits = (await api.get('/v1/budgets/plain')).limits.map(({ amount, window }) => [amount, window]);
    assert.deepEqual(limits, [[5 * USD, 'rolling'], [2.5 * USD, 'month']]);
    // The message is closed without a script as well.
    await plain.submit(plain.page.getByRole('link', { name: 'Close this message' }));
    assert.equal(await plain.page.locator('.flash').count(), 0);
    await plain.leave();
  });

  test('a message is closed', async () => {
    await visitor.open('/budgets/acme%2Flab');
    await visitor.act('Credit', { amount: '0.10' });
    await visitor.page.getByRole('link', { name: 'Close this message' }).click();
    assert.equal(await visitor.page.locator('.flash').count(), 0);
    assert.match(visitor.page.url(), /acme%2Flab$/);
  });

  test('units are credited to a budget', async () => {
    await visitor.open('/budgets/acme%2Flab');
    await visitor.act('Credit', { amount: '1.50', reason: 'refund of a failed call' });
    assert.match(await visitor.flash(), /\$1\.50 credited to acme\/lab/);
    const budget = await api.get('/v1/budgets/acme%2Flab');
    assert.equal(budget.balances.find((balance) => balance.window === 'lifetime').posted, 2_400_000);
    const credited = (await api.get('/v1/journal?limit=1000')).items.filter((event) => event.reason === 'refund of a failed call');
    assert.equal(credited.length, 1);
    assert.equal(credited[0].actor.id, 'dana');
  });

  test('a new budget is defined by a form', async () => {
    await visitor.open('/budgets');
    await visitor.page.getByRole('link', { name: 'New budget' }).click();
    for (const [name, value] of Object.entries({ scope: 'acme/new', parent: 'acme', unit: 'usd', reason: 'a new team' })) {
      await visitor.page.fill(`main [name=${name}]`, value);
    }
    await visitor.fillLimits(visitor.page.locator('main form.form'), [['25', 'month@Europe/Berlin'], ['1.5', 'hour'], ['100', 'lifetime']]);
    await visitor.submit(visitor.page.getByRole('button', { name: 'Define' }));
    assert.match(await visitor.flash(), /acme\/new is defined/);
    const limits = (await api.get('/v1/budgets/acme%2Fnew')).limits.map(({ amount, window, zone }) => [amount, window, zone]);
    assert.deepEqual(limits, [[25 * USD, 'month', 'Europe/Berlin'], [1.5 * USD, 'hour', 'UTC'], [100 * USD, 'lifetime', undefined]]);
    await journaled('budget.defined', 'a new team', 'acme/new');
  });

  test('a form for a new budget that is refused keeps what was typed', async () => {
    await visitor.open('/budgets/new');
    await visitor.page.fill('main [name=scope]', 'acme/typo');
    await visitor.fillLimits(visitor.page.locator('main form.form'), [['25', 'fortnight']]);
    await visitor.submit(visitor.page.getByRole('button', { name: 'Define' }));
    assert.equal(await visitor.page.locator('.flash[role=alert]').count(), 1);
    assert.equal(await visitor.page.locator('main [name=scope]').inputValue(), 'acme/typo');
    assert.equal(await visitor.page.locator('main [name=amount]').first().inputValue(), '25');
    assert.equal(await visitor.page.locator('main [name=window]').first().inputValue(), 'fortnight');
  });

  test('a queue is paused and resumed', async () => {
    await visitor.open('/queues/mail');
    await visitor.act('Pause', { reason: 'provider is down' });
    assert.match(await visitor.flash(), /mail is paused/);
    assert.ok((await api.get('/v1/queues/mail')).paused);
    await journaled('queue', 'provider is down', 'mail');
    await visitor.act('Resume', { reason: 'provider is back' });
    assert.ok(!(await api.get('/v1/queues/mail')).paused);
    await journaled('queue', 'provider is back', 'mail');
  });

  test('a dead job is retried', async () => {
    const id = await deadJob('video.one');
    await visitor.open(`/jobs/${id}`);
    await visitor.act('Retry', { reason: 'provider is back' });
    assert.match(await visitor.flash(), /runs again/);
    assert.equal((await api.job(id)).state, 'queued');
    await journaled('job.retried', 'provider is back', id);
    await visitor.sees('#timeline', 'retried by dana');
    await visitor.sees('#timeline', 'provider is back');
  });

  test('a waiting job is cancelled', async () => {
    const id = await api.enqueue('media', 'video.two');
    await visitor.open(`/jobs/${id}`);
    await visitor.act('Cancel', { reason: 'ordered twice' });
    assert.match(await visitor.flash(), /is cancelled/);
    assert.equal((await api.job(id)).state, 'cancelled');
    await journaled('job.cancelled', 'ordered twice', id);
  });

  test('a dead job is discarded', async () => {
    const id = await deadJob('video.three');
    await visitor.open(`/jobs/${id}`);
    await visitor.act('Discard', { reason: 'not worth it' });
    assert.match(await visitor.flash(), /is discarded/);
    assert.notEqual((await api.job(id)).state, 'dead');
    await journaled('job.discarded', 'not worth it', id);
  });

  test('the priority of a job is edited', async () => {
    const id = await api.enqueue('media', 'video.four');
    await visitor.open(`/jobs/${id}`);
    await visitor.act('Edit', { priority: '7', reason: 'a demo waits for it' });
    assert.equal((await api.job(id)).priority, 7);
    await journaled('job.edited', 'a demo waits for it', id);
    await visitor.act('Edit', { priority: 'high' });
    assert.match(await visitor.flash(), /whole number/);
    assert.equal((await api.job(id)).priority, 7);
  });

  test('a group of dead jobs is shown before it is retried, and no other job is', async () => {
    const group = [];
    for (let number = 0; number < 3; number += 1) group.push(await deadJob('video.many', 'quota exceeded'));
    const other = await deadJob('video.many', 'disk full');
    await visitor.open('/dead?queue=media');
    const row = visitor.page.locator('#dead tr', { hasText: 'quota exceeded' });
    await visitor.submit(row.getByRole('button', { name: 'Retry…' }));
    assert.match(await visitor.page.locator('h1').innerText(), /Retry 3 jobs\?/);
    assert.equal(await visitor.page.locator('.preview tbody tr').count(), 3);
    for (const id of group) assert.equal((await api.job(id)).state, 'dead', 'a preview changes nothing');
    await visitor.page.fill('form[action$="/jobs/-/act"] [name=reason]', 'the quota is raised');
    await visitor.submit(visitor.page.getByRole('button', { name: 'Retry 3 jobs' }));
    assert.match(await visitor.flash(), /3 jobs retried/);
    for (const id of group) {
      assert.equal((await api.job(id)).state, 'queued');
      await journaled('job.retried', 'the quota is raised', id);
    }
    assert.equal((await api.job(other)).state, 'dead');
    await visitor.open('/dead?queue=media');
    assert.doesNotMatch(await visitor.page.locator('#dead').innerText(), /quota exceeded/);
  });

  test('a group of dead jobs is discarded only after a question', async () => {
    const id = await deadJob('video.gone', 'the customer left');
    await visitor.open('/dead');
    await visitor.submit(visitor.page.locator('#dead tr', { hasText: 'the customer left' }).getByRole('button', { name: 'Discard…' }));
    assert.match(await visitor.page.locator('h1').innerText(), /Discard 1 jobs?\?/);
    assert.equal((await api.job(id)).state, 'dead');
    await visitor.submit(visitor.page.getByRole('button', { name: /^Discard 1 job/ }));
    await journaled('job.discarded', undefined, id);
  });

  test('selected jobs are acted on after a question', async () => {
    const ids = [];
    for (let number = 0; number < 3; number += 1) ids.push(await api.enqueue('media', 'video.select'));
    await visitor.open('/jobs?kind=video.select');
    const cancel = visitor.page.locator('.actions').getByRole('button', { name: 'Cancel' });
    assert.ok(await cancel.isDisabled(), 'nothing is selected');
    for (const id of ids.slice(0, 2)) await visitor.page.getByRole('checkbox', { name: `Select ${id}` }).check();
    assert.equal(await visitor.page.locator('.selected').innerText(), '2 selected');
    await visitor.submit(cancel);
    assert.match(await visitor.page.locator('h1').innerText(), /Cancel 2 jobs\?/);
    await visitor.page.fill('main [name=reason]', 'not needed');
    await visitor.submit(visitor.page.getByRole('button', { name: 'Cancel 2 jobs' }));
    assert.match(await visitor.flash(), /2 jobs cancelled/);
    const states = await Promise.all(ids.map(async (id) => (await api.job(id)).state));
    assert.deepEqual(states, ['cancelled', 'cancelled', 'queued']);
    await journaled('job.cancelled', 'not needed', ids[0]);
  });

  test('an act on all jobs that match tells how many, and leaves the others', async () => {
    for (let number = 0; number < 5; number += 1) await api.enqueue('bulk', 'bulk.match');
    const other = await api.enqueue('bulk', 'bulk.other');
    await visitor.open('/jobs?kind=bulk.match&queue=bulk&state=queued');
    await visitor.submit(visitor.page.getByRole('button', { name: 'Act on all that match…' }));
    await visitor.submit(visitor.page.getByRole('button', { name: 'Cancel', exact: true }));
    assert.match(await visitor.page.locator('h1').innerText(), /Cancel 5 jobs\?/);
    await visitor.submit(visitor.page.getByRole('button', { name: 'Cancel 5 jobs' }));
    assert.match(await visitor.flash(), /5 jobs cancelled/);
    assert.equal((await api.job(other)).state, 'queued');
  });

  test('a schedule runs now', async () => {
    await api.put('/v1/schedules/nightly', { cron: '0 3 * * *', queue: 'reports', kind: 'report.daily' });
    await visitor.open('/schedules');
    const row = visitor.page.locator('tr', { hasText: 'nightly' });
    await visitor.submit(row.getByRole('button', { name: 'Run now' }));
    assert.match(await visitor.flash(), /nightly has enqueued this job/);
    const id = new URL(visitor.page.url()).pathname.split('/').pop();
    assert.equal((await api.job(id)).kind, 'report.daily');
    await journaled('job.enqueued', undefined, id);
    await visitor.sees('#timeline', /enqueued by dana/);
  });

  test('a schedule is paused and resumed', async () => {
    await visitor.open('/schedules');
    const row = visitor.page.locator('tr', { hasText: 'nightly' });
    await visitor.submit(row.getByRole('button', { name: 'Pause' }));
    assert.ok((await api.get('/v1/schedules/nightly')).paused);
    await visitor.submit(row.getByRole('button', { name: 'Resume' }));
    assert.ok(!(await api.get('/v1/schedules/nightly')).paused);
    await journaled('schedule', undefined, 'nightly');
  });

  test('a blob is deleted, restored and downloaded, and gets a link and a reference', async () => {
    const id = await api.upload('cat.txt', 'text/plain', 'a cat', { namespace: 'pets', metadata: { name: 'Tom' } });
    await visitor.open('/blobs?namespace=pets');
    await visitor.submit(visitor.page.getByRole('link', { name: 'cat.txt' }));
    await visitor.sees('#about', 'text/plain');
    await visitor.act('Delete', { reason: 'a dog was wanted' });
    assert.match(await visitor.flash(), /deleted/);
    await journaled('blob.deleted', 'a dog was wanted', id);
    await visitor.open('/blobs?namespace=pets');
    await visitor.sees('#blobs', 'No blob matches');
    await visitor.open('/blobs?namespace=pets&state=deleted');
    await visitor.submit(visitor.page.getByRole('link', { name: 'cat.txt' }));
    await visitor.act('Restore', { reason: 'it purrs' });
    await journaled('blob.restored', 'it purrs', id);

    await visitor.act('Create a link', { hours: '2' });
    const address = await visitor.page.locator('#minted').innerText();
    assert.ok(address.startsWith(`${server.url}/l/`), address);
    assert.equal(await (await fetch(address)).text(), 'a cat');
    await visitor.submit(visitor.page.locator('#links').getByRole('button', { name: 'Revoke' }));
    assert.match(await visitor.flash(), /revoked/);
    assert.equal((await fetch(address)).status, 404);

    await visitor.act('Refer to it', { name: 'post:42' });
    assert.deepEqual((await api.get(`/v1/blobs/${id}/meta`)).references, ['post:42']);
    await visitor.submit(visitor.page.getByRole('button', { name: 'Release post:42' }));
    assert.deepEqual((await api.get(`/v1/blobs/${id}/meta`)).references, []);

    const [download] = await Promise.all([visitor.page.waitForEvent('download'), visitor.page.getByRole('link', { name: 'Download' }).click()]);
    assert.equal(download.suggestedFilename(), 'cat.txt');
    assert.equal(readFileSync(await download.path(), 'utf8'), 'a cat');
  });

  test('the bytes of a blob are never a page of the dashboard', async () => {
    const id = await api.upload('evil.html', 'text/html', '<script>alert(1)</script>', { namespace: 'pets' });
    const answer = await visitor.context.request.get(`/blobs/${id}/download`);
    assert.equal(answer.status(), 200);
    assert.match(answer.headers()['content-disposition'], /^attachment; filename\*=UTF-8''evil\.html$/);
    assert.match(answer.headers()['content-security-policy'], /sandbox/);
    assert.equal(answer.headers()['x-content-type-options'], 'nosniff');
  });

  test('a grant is revoked', async () => {
    const grant = await api.post('/v1/grants', { purpose: 'upload', subject: 'zoe', ttl_ms: 3_600_000 });
    await visitor.open('/grants');
    await visitor.act('Revoke', { reason: 'wrong person' }, 'tr:has-text("zoe")');
    assert.match(await visitor.flash(), /revoked/);
    assert.equal((await api.get(`/v1/grants/${grant.id}`)).state, 'revoked');
    await journaled('grant.revoked', 'wrong person', grant.id);
  });

  test('a new key is shown once, works, and is refused after it is revoked', async () => {
    await visitor.open('/tokens');
    await visitor.act('New key', { name: 'printed', role: 'viewer' });
    const token = await visitor.page.locator('#minted').innerText();
    assert.match(token, /^bak_/);
    assert.equal((await server.api(token).send('GET', '/v1/budgets')).status, 200);
    assert.equal((await server.api(token).send('POST', '/v1/jobs', { queue: 'media', kind: 'x' })).status, 403);
    await visitor.open('/tokens');
    assert.ok(!(await visitor.page.content()).includes(token), 'the token is shown once');
    await visitor.sees('main', 'printed');
    await visitor.act('Revoke', {}, 'tr:has-text("printed")');
    assert.match(await visitor.flash(), /revoked/);
    assert.equal((await server.api(token).send('GET', '/v1/budgets')).status, 401);
    await visitor.sees('tr:has-text("printed")', 'revoked');
  });

  test('keys that are made and revoked are in the journal, with a reason if the form asks for one', async () => {
    const asks = async (action) => (await visitor.page.locator(`form[action*="${action}"] [name=reason]`).count()) > 0;
    const wanted = [];
    const fields = async (action, reason) => {
      if (!(await asks(action))) return {};
      wanted.push(reason);
      return { reason };
    };
    await visitor.open('/tokens');
    await visitor.act('New key', { name: 'reasoned', role: 'user', ...(await fields('/tokens/key', 'a new shop')) });
    await visitor.open('/tokens');
    await visitor.act('Revoke', await fields('/revoke', 'the shop is closed'), 'tr:has-text("reasoned")');
    const events = (await api.get('/v1/journal?kind=grant&limit=1000&order=newest')).items.slice(0, 2);
    assert.deepEqual(events.map((event) => [event.kind, event.actor.id]), [['grant.revoked', 'dana'], ['grant.minted', 'dana']]);
    assert.deepEqual(events.map((event) => event.reason).filter(Boolean).reverse(), wanted);
  });

  test('the form of a key says what each role may do, and takes an expiry', async () => {
    await visitor.open('/tokens');
    await visitor.page.locator('summary', { hasText: 'New key' }).click();
    const role = (name) => visitor.page.locator('label.role', { has: visitor.page.locator(`[value=${name}]`) }).innerText();
    assert.match(await role('viewer'), /^viewer\s+read budgets, .*journal$/);
    assert.match(await role('agent'), /submit commands; enqueue jobs; read/);
    assert.doesNotMatch(await role('agent'), /cancel/);
    assert.match(await role('admin'), /change budgets, grants, queues, schedules, blobs, namespaces, tokens/);
    await visitor.page.keyboard.press('Escape');
    await visitor.act('New key', { name: 'brief', role: 'viewer', expires: '2h' });
    const key = (await api.get('/v1/keys?limit=1000')).items.find((key) => key.name === 'brief');
    const hours = (Date.parse(key.expires_at) - Date.now()) / 3_600_000;
    assert.ok(hours > 1.9 && hours < 2.1, key.expires_at);
    await visitor.act('New worker', { name: 'brief-worker', expires: 'soon' });
    assert.match(await visitor.flash(), /expiry .*soon/);
  });

  test('reloading the page of a new key makes no second one', async () => {
    await visitor.open('/tokens');
    await visitor.act('New key', { name: 'once', role: 'viewer' });
    await visitor.page.reload();
    const keys = (await api.get('/v1/keys?limit=1000')).items.filter((key) => key.name === 'once');
    assert.equal(keys.length, 1);
  });

  test('a worker token is made with its queues and kinds', async () => {
    await visitor.open('/tokens');
    await visitor.act('New worker', { name: 'encoder', queues: 'media-*, mail', kinds: 'video.*' });
    assert.match(await visitor.page.locator('#minted').innerText(), /^bwk_/);
    const worker = (await api.get('/v1/workers?limit=1000')).items.find((worker) => worker.name === 'encoder');
    assert.deepEqual([worker.capabilities.queues, worker.capabilities.kinds], [['media-*', 'mail'], ['video.*']]);
  });

  test('an act that is refused says why and leaves everything as it was', async () => {
    const id = await api.enqueue('media', 'video.late');
    await visitor.open(`/jobs/${id}`);
    // The job ends while its page is open.
    await api.post(`/v1/jobs/${id}/cancel`);
    await visitor.page.evaluate(() => document.querySelectorAll('details').forEach((details) => { details.open = true; }));
    await visitor.submit(visitor.page.locator('form[action$="/cancel"] button'));
    assert.equal((await api.job(id)).state, 'cancelled');
    assert.equal(await visitor.page.locator('.flash[role]').count(), 1);
  });

  test('acts leave no error in the console', () => {
    assert.deepEqual(visitor.taken(), []);
  });
});
