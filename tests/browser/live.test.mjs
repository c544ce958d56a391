// Pages follow what happens elsewhere, without being loaded again.

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { OPERATOR, PATIENCE, Server, Visitor, launch } from './support.mjs';

const USD = 1_000_000;
const LIFETIME = [{ amount: 50 * USD, window: 'lifetime' }];

describe('live pages', () => {
  let server, browser, api;
  before(async () => {
    [server, browser] = await Promise.all([Server.start(), launch()]);
    api = server.api();
    await api.budget('acme', { unit: 'usd', limits: LIFETIME });
    await api.spend('acme', 1 * USD);
    await api.enqueue('media', 'video.first');
  });
  after(async () => {
    await browser.close();
    await server.stop();
  });

  /** Opens a live page that remembers that it was not loaded again. */
  async function opened(path, token = OPERATOR) {
    const visitor = await Visitor.signedIn(browser, server, token);
    await visitor.openLive(path);
    await visitor.page.evaluate(() => { window.sameDocument = true; });
    return visitor;
  }

  /** Checks that a page was not loaded again and had no fault, and closes it. */
  async function closed(visitor) {
    assert.equal(await visitor.page.evaluate(() => window.sameDocument), true, 'the page was loaded again');
    assert.deepEqual(visitor.taken(), []);
    await visitor.leave();
  }

  test('the overview shows spend and queues as they change', async () => {
    const visitor = await opened('/');
    await visitor.sees('#budgets tr:has-text("acme")', '2 %');
    await api.spend('acme', 9 * USD);
    await visitor.sees('#budgets tr:has-text("acme")', '20 %');
    await visitor.sees('#stats', '$10.00');
    await api.enqueue('mail', 'mail.send');
    await visitor.sees('#queues', 'mail');
    await api.post('/v1/budgets/acme/freeze', { reason: 'test' });
    await visitor.sees('#attention', 'acme is frozen');
    await api.post('/v1/budgets/acme/unfreeze');
    await visitor.page.locator('#attention', { hasText: 'acme is frozen' }).waitFor({ state: 'detached' });
    await closed(visitor);
  });

  test('a budget shows charges, holds and its history as they come', async () => {
    await api.budget('lab', { unit: 'usd', limits: LIFETIME });
    const visitor = await opened('/budgets/lab');
    await api.spend('lab', 7 * USD);
    await visitor.sees('#balances', '$7.00');
    const { hold } = await api.post('/v1/holds', { charges: [{ scope: 'lab', amount: 3 * USD }], ttl_ms: 600_000 });
    await visitor.sees('#holds', '$3.00');
    await api.post(`/v1/holds/${hold.id}/commit`, { actual: 4 * USD });
    await visitor.sees('#history', 'overrun');
    await visitor.sees('#balances', '$11.00');
    await api.post('/v1/budgets/lab/freeze', { reason: 'a test' });
    await visitor.sees('h1', 'frozen');
    await visitor.sees('#balances', 'a test');
    await closed(visitor);
  });

  test('a budget shows refusals as they come, although nothing is written for them', async () => {
    await api.budget('capped', { unit: 'usd', limits: LIFETIME });
    const visitor = await opened('/budgets/capped');
    await visitor.sees('#refused', '0');
    const newest = async () => (await api.get('/v1/journal?limit=1&order=newest')).items[0].position;
    const before = await newest();
    for (let number = 1; number <= 2; number += 1) {
      const refused = await api.send('POST', '/v1/commands', { charges: [{ scope: 'capped', amount: 51 * USD }] });
      assert.equal(refused.status, 409);
      await visitor.sees('#refused', number === 1 ? /1 time(?!s)/ : /2 times/);
    }
    assert.equal(await newest(), before, 'the journal has no new event');
    await closed(visitor);
  });

  test('the counts of states change while a list of jobs stays as it is', async () => {
    await api.enqueue('counted', 'count.one');
    const visitor = await opened('/jobs?queue=counted');
    await visitor.sees('#count-queued', '1');
    await api.enqueue('counted', 'count.two');
    await visitor.sees('#count-queued', '2');
    assert.equal(await visitor.page.locator('#jobs tbody tr').count(), 1, 'the new job is announced, not inserted');
    await closed(visitor);
  });

  test('a worker that waits for jobs is seen, and when it has one', async () => {
    const visitor = await opened('/workers');
    const waits = api.post('/v1/jobs/lease', { queues: ['idle'], kinds: ['idle.*'], worker: 'patient', capacity: 1, wait_ms: 10_000 });
    // Waiting writes nothing, so that the page learns of it with the next event.
    await api.enqueue('media', 'video.other');
    await visitor.sees('#workers tr:has-text("patient")', 'waiting');
    await api.enqueue('idle', 'idle.one');
    const { jobs } = await waits;
    await visitor.sees('#workers tr:has-text("patient")', 'working');
    await api.complete(jobs[0]);
    await visitor.sees('#workers tr:has-text("patient")', 'away');
    await closed(visitor);
  });

  test('a job shows its lease, progress and end as they come', async () => {
    const id = await api.enqueue('media', 'video.watch');
    const visitor = await opened(`/jobs/${id}`);
    await visitor.sees('h1', 'queued');
    const [job] = await api.lease('media', 'video.watch', { worker: 'gpu-9' });
    await visitor.sees('h1', 'running');
    await visitor.sees('#state', 'gpu-9');
    await api.post(`/v1/jobs/${id}/progress`, { fence: job.lease.fence, percent: 62, message: 'rendering frames' });
    await visitor.sees('#progress-percent', '62 %');
    await visitor.sees('#state', 'rendering frames');
    assert.equal(await visitor.page.locator('#progress-bar').getAttribute('width'), '62%');
    // A page that is opened later shows the last report too.
    await visitor.openLive(`/jobs/${id}`);
    await visitor.page.evaluate(() => { window.sameDocument = true; });
    await visitor.sees('#progress-percent', '62 %');
    await visitor.sees('#state', 'rendering frames');
    await api.post(`/v1/jobs/${id}/progress`, { fence: job.lease.fence, percent: 70, checkpoint: { frame: 1200 } });
    await visitor.sees('#checkpoint', '1200');
    await visitor.sees('#timeline', 'checkpoint under fence 1');
    await api.complete(job, { result: { url: '/out/1.mp4' } });
    await visitor.sees('h1', 'succeeded');
    await visitor.sees('#timeline', 'succeeded');
    await visitor.sees('main', '/out/1.mp4');
    await closed(visitor);
  });

  test('a queue shows its figures as they change', async () => {
    await api.put('/v1/queues/fresh', {});
    const visitor = await opened('/queues/fresh');
    const stat = (label) => `#stats .stat:has-text("${label}") .stat-value`;
    for (let number = 1; number <= 3; number += 1) await api.enqueue('fresh', 'x.y');
    await visitor.sees(stat('Waiting'), /^3$/);
    const [job] = await api.lease('fresh', 'x.y');
    await visitor.sees(stat('Running'), /^1$/);
    await api.complete(job);
    await visitor.sees(stat('Done'), /^1$/);
    await api.post('/v1/queues/fresh/pause', { reason: 'test' });
    await visitor.sees('h1', 'paused');
    await closed(visitor);
  });

  test('dead jobs, workers and schedules follow as well', async () => {
    const visitors = await Promise.all(['/dead', '/workers', '/schedules', '/queues'].map((path) => opened(path)));
    const [dead, workers, schedules, queues] = visitors;
    await api.enqueue('late', 'late.job');
    const [job] = await api.lease('late', 'late.job', { worker: 'newcomer' });
    await workers.sees('#workers', 'newcomer');
    await queues.sees('#queues', 'late');
    await api.fail(job, 'io', 'the tape is torn', { retryable: false });
    await dead.sees('#dead', 'the tape is torn');
    await api.put('/v1/schedules/weekly', { cron: '0 3 * * 1', queue: 'late', kind: 'late.job' });
    await schedules.sees('#schedules', 'weekly');
    for (const visitor of visitors) await closed(visitor);
  });

  test('the list of jobs counts what is new instead of moving its rows', async () => {
    const visitor = await opened('/jobs');
    const rows = () => visitor.page.locator('#jobs tbody tr').allInnerTexts();
    const first = () => visitor.page.locator('#jobs tbody tr').first().locator('.id a').getAttribute('href');
    const before = [await first(), (await rows()).length];
    const id = await api.enqueue('media', 'video.newcomer');
    await visitor.sees('button.news', 'new');
    assert.deepEqual([await first(), (await rows()).length], before, 'rows have moved');
    await visitor.page.click('button.news');
    await visitor.sees('#jobs', 'video.newcomer');
    assert.equal(await first(), `/jobs/${id}`);
    assert.ok(await visitor.page.locator('button.news').isHidden());
    // Rows that were replaced can be selected like the first ones.
    const box = visitor.page.getByRole('checkbox', { name: `Select ${id}` });
    await visitor.clickUntil(box, () => box.isChecked());
    assert.equal(await visitor.page.locator('.selected').innerText(), '1 selected');
    assert.ok(await visitor.page.locator('.actions').getByRole('button', { name: 'Retry' }).isEnabled());
    const all = visitor.page.getByRole('checkbox', { name: 'Select all on this page' });
    await visitor.clickUntil(all, () => all.isChecked());
    assert.match(await visitor.page.locator('.selected').innerText(), /^\d+ selected$/);
    assert.ok(await box.isChecked());
    await closed(visitor);
  });

  test('the journal is still until it is followed', async () => {
    const visitor = await opened('/journal');
    await api.enqueue('media', 'video.journaled');
    await visitor.sees('button.news', 'new');
    await visitor.page.getByRole('button', { name: 'Follow' }).click();
    await visitor.page.waitForURL(/follow=1/);
    await visitor.page.waitForSelector('#live.is-on');
    await visitor.page.evaluate(() => { window.sameDocument = true; });
    await api.put('/v1/schedules/followed', { cron: '0 3 * * 1', queue: 'late', kind: 'late.job' });
    await visitor.sees('#journal', 'schedule.defined');
    await closed(visitor);
  });

  test('a form that is being filled in is left alone, and its part catches up afterwards', async () => {
    await api.budget('busy', { unit: 'usd', limits: LIFETIME });
    const visitor = await opened('/budgets/busy');
    const form = visitor.page.locator('form[action$="/credit"]');
    await visitor.clickUntil(visitor.page.locator('summary', { hasText: /^Credit$/ }), () => form.isVisible());
    await form.locator('[name=reason]').fill('half a sentence');
    await api.post('/v1/budgets/busy/freeze', { reason: 'meanwhile' });
    await visitor.sees('#balances', 'meanwhile');
    assert.equal(await form.locator('[name=reason]').inputValue(), 'half a sentence');
    assert.ok(!(await visitor.page.locator('h1').innerText()).includes('frozen'));
    await visitor.page.keyboard.press('Escape');
    await visitor.page.evaluate(() => document.activeElement.blur());
    await visitor.sees('h1', 'frozen');
    await closed(visitor);
  });

  test('events of the same moment load the page once', async () => {
    const visitor = await opened('/queues/media');
    visitor.requests.length = 0;
    await api.post('/v1/jobs/bulk', { jobs: Array.from({ length: 200 }, () => ({ queue: 'media', kind: 'video.burst' })) });
    await visitor.page.waitForFunction(() => Number(document.querySelector('#stats .stat-value').textContent.replace(/\D/g, '')) >= 200);
    const loads = visitor.requests.filter((request) => request.resourceType() === 'fetch').length;
    assert.ok(loads >= 1 && loads <= 3, `${loads} loads for 200 events`);
    await closed(visitor);
  });

  test('a page that is not seen gives up its connection and catches up when it is seen again', async () => {
    await api.budget('hidden', { unit: 'usd', limits: LIFETIME });
    const visitor = await opened('/budgets/hidden');
    const show = (hidden) => visitor.page.evaluate((value) => {
      Object.defineProperty(document, 'hidden', { value, configurable: true });
      document.dispatchEvent(new Event('visibilitychange'));
    }, hidden);
    const streams = () => visitor.requests.filter((request) => request.resourceType() === 'eventsource').length;
    const before = streams();
    await show(true);
    await api.spend('hidden', 5 * USD);
    assert.equal(streams(), before);
    assert.doesNotMatch(await visitor.page.locator('#balances').innerText(), /\$5\.00/);
    await show(false);
    await visitor.sees('#balances', '$5.00');
    assert.equal(streams(), before + 1);
    await closed(visitor);
  });

  test('the refresh of a page does not use up the message of an act in another tab', async () => {
    await api.budget('message', { unit: 'usd', limits: LIFETIME });
    const visitor = await Visitor.signedIn(browser, server);
    await visitor.open('/budgets/message');
    const form = await visitor.page.locator('form[action$="/freeze"] input[name=form]').getAttribute('value');
    const cookies = (await visitor.context.cookies()).map(({ name, value }) => `${name}=${value}`).join('; ');
    const acted = await fetch(`${server.url}/budgets/message/freeze`, {
      method: 'POST', redirect: 'manual', headers: { cookie: cookies }, body: new URLSearchParams({ form }),
    });
    const message = acted.headers.getSetCookie().find((cookie) => cookie.startsWith('bursar_flash=')).split(';')[0];
    const load = (headers) => fetch(`${server.url}/budgets/message`, { headers: { cookie: `${cookies}; ${message}`, ...headers } });
    const refreshed = await load({ 'bursar-refresh': '1' });
    assert.doesNotMatch(await refreshed.text(), /every new charge is refused/);
    assert.deepEqual(refreshed.headers.getSetCookie(), []);
    const shown = await load({});
    assert.match(await shown.text(), /every new charge is refused/);
    await visitor.leave();
  });

  test('a session that ends leads its open pages to the login', async () => {
    const key = await api.post('/v1/keys', { name: 'short', role: 'admin' });
    const visitor = await opened('/budgets/acme', key.token);
    await api.delete(`/v1/keys/${key.id}`);
    await api.spend('acme', 1);
    await visitor.page.waitForURL(/\/login/, { timeout: 2 * PATIENCE });
    await visitor.sees('.flash', 'The session has ended');
    await visitor.leave();
  });

  test('pages reconnect to a server that was killed and catch up', async () => {
    await api.budget('phoenix', { unit: 'usd', limits: LIFETIME });
    const budget = await opened('/budgets/phoenix');
    const overview = await opened('/');
    const jobs = await opened('/jobs');
    await server.kill();
    for (const visitor of [budget, overview, jobs]) await visitor.sees('#live', 'reconnecting');
    await server.again();
    // Before the pages are connected again, most likely.
    await api.spend('phoenix', 11 * USD);
    const id = await api.enqueue('media', 'video.phoenix');
    for (const visitor of [budget, overview, jobs]) await visitor.sees('#live', 'live');
    await budget.sees('#balances', '$11.00');
    await overview.sees('#budgets tr:has-text("phoenix")', '22 %');
    await jobs.sees('button.news', 'show');
    await jobs.page.click('button.news');
    await jobs.page.locator(`#jobs a[href="/jobs/${id}"]`).waitFor();
    // And they are live as before.
    await api.spend('phoenix', 2 * USD);
    await budget.sees('#balances', '$13.00');
    for (const visitor of [budget, overview, jobs]) {
      assert.equal(await visitor.page.evaluate(() => window.sameDocument), true, 'the page was loaded again');
      await visitor.leave();
    }
  });
});
