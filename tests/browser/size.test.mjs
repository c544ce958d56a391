// Many jobs and budgets: pages ask for a bounded number of things of a bounded size.

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { Server, Visitor, launch } from './support.mjs';

const JOBS = 100_000;
const BUDGETS = 10_000;
/** Document, style sheet, script, icon and event stream. */
const REQUESTS_MAX = 5;
/** Bytes of a document, without compression. */
const BYTES_MAX = 512 * 1024;

/** Runs `work` for each number below `count`, some at a time. */
async function each(count, atOnce, work) {
  let next = 0;
  const lane = async () => {
    while (next < count) await work(next++);
  };
  await Promise.all(Array.from({ length: atOnce }, lane));
}

describe('100,000 jobs and 10,000 budgets', () => {
  let server, browser, visitor;
  before(async () => {
    [server, browser] = await Promise.all([Server.start(), launch()]);
    const api = server.api();
    const limits = [{ amount: 1_000_000_000, window: 'month' }];
    await api.budget('org', { unit: 'usd', limits });
    await each(BUDGETS - 1, 200, (number) => api.budget(`org/${String(number).padStart(5, '0')}`, { unit: 'usd', parent: 'org', limits }));
    const job = (number) => ({ queue: `queue-${number % 20}`, kind: 'video.generate', payload: { number }, tags: ['bulk'] });
    await each(JOBS / 5_000, 2, (batch) => api.post('/v1/jobs/bulk', { jobs: Array.from({ length: 5_000 }, (_, at) => job(batch * 5_000 + at)) }));
    visitor = await Visitor.signedIn(browser, server);
  });
  after(async () => {
    await browser.close();
    await server.stop();
  });

  test('every page makes a bounded number of requests and is of a bounded size', async () => {
    const [job] = (await server.api().get('/v1/jobs?limit=1')).items;
    const paths = ['/', '/budgets', '/budgets/org', '/budgets/org%2F00042', '/jobs', '/jobs?state=queued&queue=queue-7&tag=bulk', `/jobs/${job.id}`,
      '/queues', '/queues/queue-7', '/workers', '/dead', '/schedules', '/blobs', '/grants', '/journal', '/tokens', '/settings', '/search?q=org'];
    const over = [];
    for (const path of paths) {
      visitor.requests.length = 0;
      const answer = await visitor.openFollowing(path);
      if (answer.status() !== 200) over.push(`${path}: ${answer.status()}`);
      const bytes = (await answer.body()).length;
      if (visitor.requests.length > REQUESTS_MAX) over.push(`${path}: ${visitor.requests.length} requests`);
      if (bytes > BYTES_MAX) over.push(`${path}: ${bytes} bytes`);
    }
    assert.deepEqual(over, []);
    assert.deepEqual(visitor.taken(), []);
  });

  test('jobs are paged: the second page follows the first, and one can go back', async () => {
    await visitor.open('/jobs?queue=queue-7');
    const ids = () => visitor.page.locator('#jobs tbody .id a').evaluateAll((links) => links.map((link) => link.getAttribute('href')));
    const first = await ids();
    assert.equal(first.length, 100);
    await visitor.page.getByRole('link', { name: 'Next page' }).click();
    await visitor.page.waitForURL(/cursor=/);
    const second = await ids();
    assert.equal(second.length, 100);
    assert.equal(new Set([...first, ...second]).size, 200, 'no job is on both pages');
    assert.equal(new URL(visitor.page.url()).searchParams.get('queue'), 'queue-7');
    const queues = await visitor.page.locator('#jobs tbody td[data-label=in]').allInnerTexts();
    assert.deepEqual([...new Set(queues)], ['queue-7'], 'the filter stays');
    await visitor.page.getByRole('link', { name: 'First page' }).click();
    await visitor.page.waitForURL((url) => !url.searchParams.has('cursor'));
    assert.deepEqual(await ids(), first);
  });

  test('budgets and the journal are paged', async () => {
    for (const [path, rows] of [['/budgets', '#budgets tbody th a'], ['/journal', '#journal tbody td:first-child']]) {
      await visitor.open(path);
      const first = await visitor.page.locator(rows).allInnerTexts();
      await visitor.page.getByRole('link', { name: 'Next page' }).click();
      await visitor.page.waitForURL(/cursor=/);
      const second = await visitor.page.locator(rows).allInnerTexts();
      assert.ok(second.length >= 100, path);
      assert.deepEqual(second.filter((row) => first.includes(row)), [], path);
    }
  });

  test('the preview of an act on all jobs is of a bounded size and says what the act does', async () => {
    await visitor.open('/jobs?state=queued');
    visitor.requests.length = 0;
    const [answer] = await Promise.all([
      visitor.page.waitForResponse((response) => response.url().includes('/jobs/-/preview')),
      visitor.submit(visitor.page.getByRole('button', { name: 'Act on all that match…' })),
    ]);
    assert.ok((await answer.body()).length < BYTES_MAX);
    await visitor.submit(visitor.page.getByRole('button', { name: 'Cancel', exact: true }));
    assert.ok((await visitor.page.locator('.preview tbody tr').count()) <= 20);
    // The act changes as many jobs as its button says.
    const button = visitor.page.locator('form[action$="/jobs/-/act"] button');
    const number = (text) => Number(text.replaceAll(',', '').match(/\d+/)[0]);
    const promised = number(await button.innerText());
    await visitor.submit(button);
    assert.equal(number(await visitor.flash()), promised);
  });

  test('an event loads the open page once, however much it shows', async () => {
    await visitor.openLive('/budgets/org');
    visitor.requests.length = 0;
    await server.api().spend('org/00042', 1_000_000);
    await visitor.sees('#balances', '$1.00');
    assert.equal(visitor.requests.length, 1);
  });
});
