// Every page renders: busy and empty, on a phone and a wide screen, light and dark.

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import axe from 'axe-core';
import { OPERATOR, Server, Visitor, knows, launch } from './support.mjs';
import { seed } from './seed.mjs';

const WIDTHS = [390, 1440];
/** The rules that a change of the scheme concerns: it changes colours and nothing else. */
const OF_COLOURS = ['color-contrast', 'link-in-text-block'];
const LISTS = ['/', '/budgets', '/jobs', '/queues', '/workers', '/schedules', '/blobs', '/dead', '/grants', '/journal', '/tokens', '/settings', '/search'];

/** Returns what axe calls serious or critical, one line for each element. */
async function accessibilityFaults(page, rules = undefined) {
  // Rows that are made alike have the same faults. A collapsed row keeps its place.
  await page.evaluate(() => {
    for (const body of document.querySelectorAll('tbody')) {
      const seen = new Set();
      for (const row of [...body.rows]) {
        const made = [row, ...row.querySelectorAll('*')].map((element) => `${element.tagName}.${element.getAttribute('class')}`).join();
        if (seen.has(made)) row.style.setProperty('visibility', 'collapse');
        seen.add(made);
      }
    }
  });
  if (!(await page.evaluate(() => Boolean(globalThis.axe)))) await page.evaluate(axe.source);
  const tags = { type: 'tag', values: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa'] };
  const runOnly = rules ? { type: 'rule', values: rules } : tags;
  const { violations } = await page.evaluate((runOnly) => globalThis.axe.run(document, { runOnly, resultTypes: ['violations'] }), runOnly);
  const serious = violations.filter((violation) => ['serious', 'critical'].includes(violation.impact));
  return serious.flatMap(({ id, nodes }) => nodes.map((node) => `${id}: ${node.html.slice(0, 160)} (${node.failureSummary.split('\n')[1]?.trim()})`));
}

/** Returns the elements that stick out of the window. */
function overflow(page) {
  return page.evaluate(() => {
    const over = document.documentElement.scrollWidth - window.innerWidth;
    if (over <= 0) return [];
    const wide = [...document.body.querySelectorAll('*')].filter((element) => element.getBoundingClientRect().right > window.innerWidth + 1);
    return wide.slice(0, 3).map((element) => `${element.tagName.toLowerCase()}.${element.className} is ${over} px too wide`);
  });
}

/** Faults with the pages that have them. */
class Faults {
  found = new Map();

  add(path, faults) {
    for (const fault of faults) this.found.set(fault, [...(this.found.get(fault) ?? []), path]);
  }

  lines() {
    return [...this.found].map(([fault, paths]) => `${paths[0]}${paths.length > 1 ? ` and ${paths.length - 1} more` : ''}: ${fault}`);
  }
}

/** Opens pages at a width and returns all faults, in the light and in the dark scheme. */
async function faultsOf(browser, server, paths, width) {
  const visitor = await Visitor.signedIn(browser, server, OPERATOR, { width, reducedMotion: 'reduce' });
  const faults = new Faults();
  for (const path of paths) {
    const answer = await visitor.openFollowing(path);
    if (answer.status() !== 200) faults.add(path, [`status ${answer.status()}`]);
    faults.add(path, await overflow(visitor.page));
    faults.add(path, await accessibilityFaults(visitor.page));
    await visitor.page.emulateMedia({ colorScheme: 'dark' });
    const dark = await accessibilityFaults(visitor.page, OF_COLOURS);
    faults.add(path, dark.map((fault) => `dark: ${fault}`));
    await visitor.page.emulateMedia({ colorScheme: 'light' });
    faults.add(path, visitor.taken());
  }
  await visitor.leave();
  return faults.lines();
}

describe('pages of a busy company', () => {
  let server, browser, paths, seeded;
  before(async () => {
    [server, browser] = await Promise.all([Server.start(), launch()]);
    seeded = await seed(server);
    const { jobs, blobs, root, exhausted, frozen } = seeded;
    const budget = (scope) => `/budgets/${encodeURIComponent(scope)}`;
    paths = [...LISTS, budget(root), budget(exhausted), budget(frozen), budget('tokens/gateway'), '/budgets/new', '/jobs?state=dead',
      ...Object.values(jobs).map((id) => `/jobs/${id}`), ...Object.values(blobs).map((id) => `/blobs/${id}`), '/queues/media', '/queues/reports', '/journal?follow=1', '/search?q=a', '/tenants', '/api', '/login'];
  });
  after(async () => {
    await browser.close();
    await server.stop();
  });

  for (const width of WIDTHS) {
    test(`every page is without fault at ${width} px, in the light and in the dark scheme`, async () => {
      assert.deepEqual(await faultsOf(browser, server, paths, width), []);
    });
  }

  test('the states of budgets and jobs are said in words', async () => {
    const visitor = await Visitor.signedIn(browser, server);
    await visitor.open('/budgets');
    const row = (scope) => visitor.page.locator('tr', { has: visitor.page.getByRole('link', { name: scope, exact: true }) }).innerText();
    assert.match(await row('acme/research/scout'), /at the limit/);
    assert.match(await row('acme/support'), /frozen/);
    assert.match(await row('acme/media'), /within/);
    await visitor.open('/jobs');
    const text = await visitor.page.locator('#jobs').innerText();
    for (const word of ['queued', 'running', 'awaiting budget', 'scheduled', 'succeeded', 'cancelled', 'dead']) {
      assert.ok(text.includes(word), `no job is ${word}`);
    }
    await visitor.open('/');
    const attention = await visitor.page.locator('#attention').innerText();
    assert.match(attention, /media: 3 jobs are dead/);
    assert.match(attention, /reports is paused with 3 jobs waiting/);
    assert.match(attention, /acme\/support is frozen/);
    assert.match(attention, /acme\/research\/scout has used 100 %/);
    assert.match(attention, /refused 3 times, last (now|\d+ (s|min) ago)/);
    await visitor.open('/dead');
    assert.equal(await visitor.page.locator('#dead tbody tr').count(), 2, 'one group for each error');
    await visitor.open('/queues/reports');
    assert.match(await visitor.page.locator('h1').innerText(), /reports.*paused/s);
    await visitor.leave();
  });

  test('refusals are shown on the budget that refused, by limit, and on the overview', async () => {
    const visitor = await Visitor.signedIn(browser, server);
    await visitor.open('/budgets/acme%2Fresearch%2Fscout');
    assert.match(await visitor.page.locator('#refused').innerText(), /3\s+times\s+last .*since this server started/s);
    for (const window of ['day@UTC', 'lifetime']) {
      const row = visitor.page.locator('#balances tr', { has: visitor.page.getByRole('rowheader', { name: window }) });
      assert.match(await row.locator('td[data-label=refused]').innerText(), /^3 /, window);
    }
    await visitor.open('/budgets/acme');
    assert.match(await visitor.page.locator('#refused').innerText(), /0\s+since this server started/);
    await visitor.open('/');
    assert.match(await visitor.page.locator('#budgets tr', { hasText: 'acme/research/scout' }).locator('td[data-label=refused]').innerText(), /^3 /);
    await visitor.open('/budgets');
    assert.match(await visitor.page.locator('tr', { hasText: 'acme/research/scout' }).locator('td[data-label=refused]').innerText(), /^3 /);
    await visitor.leave();
    // A user may not read the journal, and sees them as well.
    const user = await Visitor.signedIn(browser, server, await server.key('onlooker', 'user'));
    await user.open('/');
    assert.match(await user.page.locator('#attention').innerText(), /refused 3 times/);
    await user.leave();
  });

  test('a budget lists the budgets below it by their spend, and the overview names the largest', async () => {
    const visitor = await Visitor.signedIn(browser, server);
    await visitor.open('/budgets/acme?window=day%40UTC');
    const names = await visitor.page.locator('#children tbody th a').allInnerTexts();
    assert.deepEqual(names, ['acme/media', 'acme/research', 'acme/support', 'acme/trial']);
    const media = await visitor.page.locator('#children tr', { hasText: 'acme/media' }).innerText();
    assert.match(media, /within/);
    assert.match(media, /\$3\d\.\d\d/);
    assert.match(media, /6\d %/);
    await visitor.open('/budgets/acme%2Fresearch%2Fscout');
    assert.equal(await visitor.page.locator('#children section').count(), 0, 'it has no children');
    await visitor.open('/');
    assert.deepEqual((await visitor.page.locator('#spenders tbody td a').allInnerTexts()).slice(0, 2), ['acme/media', 'acme/research']);
    await visitor.leave();
  });

  test('the window of the burn chart is chosen, and is that of the nearest limit at first', async () => {
    const visitor = await Visitor.signedIn(browser, server);
    await visitor.open('/budgets/acme%2Fmedia');
    const shown = () => visitor.page.locator('#burn .picker [aria-current]').innerText();
    const foot = () => visitor.page.locator('#burn .card-foot').innerText();
    assert.equal(await shown(), 'day@UTC');
    await visitor.page.locator('#burn .picker').getByRole('link', { name: 'month@Europe/Berlin' }).click();
    await visitor.page.waitForURL(/window=month/);
    assert.equal(await shown(), 'month@Europe/Berlin');
    assert.match(await foot(), /^month@Europe\/Berlin:/);
    await visitor.open('/budgets/acme%2Fmedia%2Fpixel');
    assert.match(await foot(), /^rolling:1h: the window slides/, 'a window that slides is drawn too');
    await visitor.leave();
  });

  test('lists are cards on a phone, with all that a row says', async () => {
    const visitor = await Visitor.signedIn(browser, server, OPERATOR, { width: 390 });
    for (const [path, words] of [
      ['/budgets', [/acme\/media/, /posted/, /held/]],
      ['/queues', [/media/, /waiting/, /running/, /dead/]],
      ['/schedules', [/nightly/, /report\.daily/, /next/, /Run now/]],
      ['/blobs', [/harbour-at-dawn\.mov/, /video\/quicktime/, /2\.3 MiB/, /references/]],
      ['/grants', [/upload/, /alice/, /expires/, /Revoke/]],
      ['/workers', [/gpu-2/, /working/, /jobs/]],
      ['/tokens', [/dana/, /admin/, /expires/]],
    ]) {
      await visitor.open(path);
      const table = visitor.page.locator('main table').first();
      assert.equal(await table.evaluate((table) => getComputedStyle(table.tBodies[0].rows[0]).display), 'flex', path);
      assert.ok(await table.evaluate((table) => table.scrollWidth <= table.parentElement.clientWidth), `${path} scrolls`);
      // Labels are written by the style sheet.
      const text = await table.evaluate((table) => [...table.tBodies[0].querySelectorAll('td, th')].map((cell) => {
        const shown = getComputedStyle(cell).display !== 'none';
        return shown ? `${getComputedStyle(cell, '::before').content} ${cell.innerText}` : '';
      }).join(' '));
      for (const word of words) assert.match(text, word, path);
    }
    await visitor.leave();
  });

  test('a job shows the blobs that it uses and made, and a blob what refers to it', async () => {
    const visitor = await Visitor.signedIn(browser, server);
    await visitor.open(`/jobs/${seeded.jobs.succeeded}`);
    const row = (name) => visitor.page.locator('#blobs tr', { has: visitor.page.getByRole('link', { name, exact: true }) }).innerText();
    assert.match(await row('harbour-at-dawn.mov'), /uses it/);
    assert.match(await row('harbour-at-dawn.mp4'), /made it/);
    await visitor.submit(visitor.page.getByRole('link', { name: 'harbour-at-dawn.mp4', exact: true }));
    await visitor.sees('#references', /1 job uses or made it/);
    await visitor.sees('#about', /400 KiB/);
    await visitor.open(`/blobs/${seeded.blobs.page}`);
    await visitor.sees('h1', 'report <b>.html');
    await visitor.sees('#references', 'report:42');
    await visitor.open(`/blobs/${seeded.blobs.deleted}`);
    await visitor.sees('h1', 'deleted');
    assert.equal(await visitor.page.getByRole('link', { name: 'Download' }).count(), 0);
    await visitor.leave();
  });

  test('jobs have their cost, their duration and their attempts', async () => {
    const visitor = await Visitor.signedIn(browser, server);
    const cell = (id, label) => visitor.page.locator(`tr#${id} td[data-label=${label}]`).innerText();
    await visitor.open('/jobs?kind=video.generate');
    const done = await visitor.page.locator('#jobs tbody tr').first().getAttribute('id');
    assert.equal(await cell(done, 'cost'), '$0.26');
    assert.match(await cell(done, 'took'), /^\d+ (ms|s)$/);
    assert.equal(await cell(done, 'attempts'), '1 of 3');
    await visitor.open('/jobs?kind=mail.send&state=leased');
    const running = await visitor.page.locator('#jobs tbody tr').first().getAttribute('id');
    assert.equal(await cell(running, 'attempts'), '2 of 3');
    assert.equal(await cell(running, 'cost'), '');
    await visitor.open(`/jobs/${running}`);
    await visitor.sees('#state', 'Attempt 2 of 3');
    await visitor.leave();
  });

  test('states have counts where counts are kept', async () => {
    const visitor = await Visitor.signedIn(browser, server);
    const counts = () => visitor.page.locator('.chip .num').count();
    const count = (state) => visitor.page.locator(`#count-${state}`).innerText();
    await visitor.open('/jobs');
    assert.deepEqual([await count('dead'), await count('queued'), await count('awaiting_budget')], ['3', '15', '1']);
    await visitor.open('/jobs?queue=embed');
    assert.deepEqual([await count('dead'), await count('queued')], ['0', '12']);
    await visitor.open('/jobs?kind=video.cut');
    assert.equal(await counts(), 0, 'kinds are not counted');
    await visitor.leave();
  });

  test('a paused queue is said on its page and on those of its jobs, with who paused it and why', async () => {
    const visitor = await Visitor.signedIn(browser, server);
    const [waiting] = (await server.api().get('/v1/jobs?queue=reports&state=queued')).items;
    for (const path of ['/queues/reports', `/jobs/${waiting.id}`]) {
      await visitor.open(path);
      assert.match(await visitor.page.locator('#paused').innerText(), /reports is paused.*Paused by operator .*: the database moves/s, path);
    }
    await visitor.open('/queues/media');
    assert.equal(await visitor.page.locator('#paused .flash').count(), 0);
    await visitor.leave();
  });

  test('the journal is searched by kind and by days, and says which threshold was crossed', async () => {
    const visitor = await Visitor.signedIn(browser, server);
    await visitor.open('/journal');
    await visitor.page.selectOption('#f-kind', 'budget.crossed');
    await visitor.submit(visitor.page.getByRole('button', { name: 'Search', exact: true }));
    const rows = await visitor.page.locator('#journal tbody tr').allInnerTexts();
    assert.ok(rows.length >= 3 && rows.every((row) => row.includes('budget.crossed')), rows.join());
    assert.ok(rows.some((row) => /100 % of day@UTC/.test(row)), rows.join());
    assert.equal(await visitor.page.locator('#f-kind').inputValue(), 'budget.crossed');
    const day = (offset) => new Date(Date.now() + offset * 86_400_000).toISOString().slice(0, 10);
    await visitor.page.fill('#f-from', day(-1));
    await visitor.page.fill('#f-to', day(0));
    await visitor.submit(visitor.page.getByRole('button', { name: 'Search', exact: true }));
    assert.ok((await visitor.page.locator('#journal tbody tr').count()) >= 3);
    await visitor.page.fill('#f-to', day(-1));
    await visitor.page.fill('#f-from', day(-3));
    await visitor.submit(visitor.page.getByRole('button', { name: 'Search', exact: true }));
    assert.equal(await visitor.page.locator('#journal tbody tr').count(), 0);
    await visitor.leave();
  });

  test('grants come newest first', async () => {
    const visitor = await Visitor.signedIn(browser, server);
    await visitor.open('/grants');
    assert.deepEqual(await visitor.page.locator('#grants td[data-label=subject]').allInnerTexts(), ['carol', 'bob', 'alice']);
    await visitor.leave();
  });

  test('charts side by side are of equal height', async () => {
    const visitor = await Visitor.signedIn(browser, server);
    await visitor.open('/');
    const heights = await visitor.page.locator('#charts > .card').evaluateAll((cards) => cards.map((card) => card.getBoundingClientRect().height));
    assert.equal(heights.length, 2);
    assert.equal(heights[0], heights[1]);
    await visitor.leave();
  });

  test('amounts are shown in the unit of their budget and times relative to now', async () => {
    const visitor = await Visitor.signedIn(browser, server);
    await visitor.open('/budgets/acme%2Fresearch%2Fscout');
    const balances = await visitor.page.locator('#balances').innerText();
    assert.match(balances, /\$5\.00/);
    assert.doesNotMatch(balances, /5000000/);
    const time = visitor.page.locator('#history time').first();
    assert.match(await time.innerText(), /ago|now/);
    assert.match(await time.getAttribute('title'), /^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC$/);
    await visitor.open('/budgets/tokens%2Fgateway');
    assert.match(await visitor.page.locator('#balances').innerText(), /of 500,000 tokens/);
    await visitor.leave();
  });

  test('forms behind buttons and the palette are accessible when they are open', async () => {
    const visitor = await Visitor.signedIn(browser, server);
    const faults = new Faults();
    for (const path of ['/', '/budgets/acme', '/tokens', '/grants', '/journal', '/queues/media', paths.find((path) => path.startsWith('/jobs/job_'))]) {
      await visitor.open(path);
      await visitor.page.evaluate(() => document.querySelectorAll('details').forEach((details) => { details.open = true; }));
      faults.add(path, await accessibilityFaults(visitor.page));
    }
    await visitor.open('/');
    await visitor.page.keyboard.press('Control+k');
    await visitor.page.waitForSelector('dialog.palette[open]');
    faults.add('the palette', await accessibilityFaults(visitor.page));
    assert.deepEqual(faults.lines(), []);
    await visitor.leave();
  });

  test('a missing job, budget or page is explained with its status', async () => {
    const visitor = await Visitor.signedIn(browser, server);
    for (const path of ['/jobs/job_01j9zq3v4w5x6y7z8abcdefghj', '/budgets/no%2Fsuch', '/nothing-here']) {
      const answer = await visitor.open(path);
      assert.equal(answer.status(), 404, path);
      assert.match(await visitor.page.locator('body').innerText(), /not found|there is no|no route/i, path);
    }
    await visitor.leave();
  });

  test('the API page has its own address and lists the routes', async () => {
    const visitor = await Visitor.signedIn(browser, server);
    const answer = await visitor.open('/api');
    assert.equal(answer.status(), 200);
    await visitor.sees('body', '/v1/budgets/{scope}');
    // It has the type and the colours of the dashboard, and the way back.
    const font = () => visitor.page.evaluate(() => getComputedStyle(document.body).font + getComputedStyle(document.body).backgroundColor);
    const look = await font();
    await visitor.page.locator('summary', { hasText: 'Create or replace a budget' }).click();
    await visitor.page.locator('details[open] summary', { hasText: 'Fields of the body' }).first().click();
    assert.deepEqual(await accessibilityFaults(visitor.page), []);
    await visitor.page.getByRole('link', { name: 'Back to the dashboard' }).click();
    await visitor.sees('nav', 'Overview');
    assert.equal(look, await font());
    assert.deepEqual(visitor.taken(), []);
    await visitor.leave();
  });
});

describe('pages of an empty server', () => {
  let server, browser;
  before(async () => {
    [server, browser] = await Promise.all([Server.start(), launch()]);
  });
  after(async () => {
    await browser.close();
    await server.stop();
  });

  for (const width of WIDTHS) {
    test(`empty pages are without fault at ${width} px, in the light and in the dark scheme`, async () => {
      assert.deepEqual(await faultsOf(browser, server, LISTS, width), []);
    });
  }

  test('empty pages say what to do next', async () => {
    const visitor = await Visitor.signedIn(browser, server);
    for (const path of ['/', '/budgets', '/jobs', '/queues', '/workers', '/schedules', '/blobs', '/grants']) {
      await visitor.open(path);
      const command = await visitor.page.locator('.empty .cmd code').first().innerText();
      assert.match(command, /^bursar /, path);
      assert.ok(await knows(command), `${path}: ${command}`);
    }
    await visitor.leave();
  });
});
