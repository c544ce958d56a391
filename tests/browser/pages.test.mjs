// Every page renders: busy and empty, on a phone and a wide screen, light and dark.

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import axe from 'axe-core';
import { OPERATOR, Server, Visitor, knows, launch } from './support.mjs';
import { seed } from './seed.mjs';

/** The structure of a page depends on its width and its contrasts on the scheme, so that two variants are checked by axe. */
const VARIANTS = [
  { width: 390, scheme: 'light', accessible: true },
  { width: 390, scheme: 'dark' },
  { width: 1440, scheme: 'light' },
  { width: 1440, scheme: 'dark', accessible: true },
];
const LISTS = ['/', '/budgets', '/jobs', '/queues', '/workers', '/schedules', '/dead', '/grants', '/journal', '/tokens', '/settings', '/search'];

/** Returns what axe calls serious or critical, one line for each element. */
async function accessibilityFaults(page) {
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
  await page.evaluate(axe.source);
  const { violations } = await page.evaluate(() => globalThis.axe.run(document, {
    runOnly: { type: 'tag', values: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa'] },
    resultTypes: ['violations'],
  }));
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

/** Opens pages in one variant and returns all faults. */
async function faultsOf(browser, server, paths, { accessible = false, ...variant }) {
  const visitor = await Visitor.signedIn(browser, server, OPERATOR, variant);
  const faults = new Faults();
  for (const path of paths) {
    const answer = await visitor.open(path);
    if (answer.status() !== 200) faults.add(path, [`status ${answer.status()}`]);
    const live = await visitor.page.locator('body[data-events]').count();
    if (live) await visitor.page.waitForSelector('#live.is-on');
    faults.add(path, await overflow(visitor.page));
    if (accessible) faults.add(path, await accessibilityFaults(visitor.page));
    faults.add(path, visitor.taken());
  }
  await visitor.leave();
  return faults.lines();
}

describe('pages of a busy company', () => {
  let server, browser, paths;
  before(async () => {
    [server, browser] = await Promise.all([Server.start(), launch()]);
    const { jobs, root, exhausted, frozen } = await seed(server);
    const budget = (scope) => `/budgets/${encodeURIComponent(scope)}`;
    paths = [...LISTS, budget(root), budget(exhausted), budget(frozen), budget('tokens/gateway'), '/budgets/new', '/jobs?state=dead',
      ...Object.values(jobs).map((id) => `/jobs/${id}`), '/queues/media', '/queues/reports', '/journal?follow=1', '/search?q=a', '/login'];
  });
  after(async () => {
    await browser.close();
    await server.stop();
  });

  for (const variant of VARIANTS) {
    test(`every page is without fault at ${variant.width} px in the ${variant.scheme} scheme`, async () => {
      assert.deepEqual(await faultsOf(browser, server, paths, variant), []);
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
    await visitor.open('/dead');
    assert.equal(await visitor.page.locator('#dead tbody tr').count(), 2, 'one group for each error');
    await visitor.open('/queues/reports');
    assert.match(await visitor.page.locator('h1').innerText(), /reports.*paused/s);
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

  for (const variant of [VARIANTS[0], VARIANTS[3]]) {
    test(`empty pages are without fault at ${variant.width} px in the ${variant.scheme} scheme`, async () => {
      assert.deepEqual(await faultsOf(browser, server, LISTS, variant), []);
    });
  }

  test('empty pages say what to do next', async () => {
    const visitor = await Visitor.signedIn(browser, server);
    for (const path of ['/', '/budgets', '/jobs', '/queues', '/workers', '/schedules', '/grants']) {
      await visitor.open(path);
      const command = await visitor.page.locator('.empty .cmd code').first().innerText();
      assert.match(command, /^bursar /, path);
      assert.ok(await knows(command), `${path}: ${command}`);
    }
    await visitor.leave();
  });
});
