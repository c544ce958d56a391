// Without a mouse, with reduced motion, and without JavaScript.

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { OPERATOR, Server, Visitor, launch } from './support.mjs';
import { seed } from './seed.mjs';

describe('by keyboard', () => {
  let server, browser, seeded;
  before(async () => {
    [server, browser] = await Promise.all([Server.start(), launch()]);
    seeded = await seed(server);
  });
  after(async () => {
    await browser.close();
    await server.stop();
  });

  /** Opens the palette, types a text and waits for a result. */
  async function find(visitor, text, result) {
    if (visitor.page.url() === 'about:blank') await visitor.open('/');
    await visitor.page.keyboard.press('Control+k');
    await visitor.page.waitForSelector('dialog.palette[open]');
    await visitor.page.keyboard.type(text);
    await visitor.page.locator('dialog.palette a', { hasText: result }).first().waitFor();
  }

  const isAt = (visitor, path) => visitor.page.waitForURL((url) => decodeURIComponent(url.pathname) === path);

  test('Ctrl+K finds a job by its id, and Enter opens it', async () => {
    const visitor = await Visitor.signedIn(browser, server);
    await find(visitor, seeded.jobs.dead, seeded.jobs.dead);
    await visitor.page.keyboard.press('Enter');
    await isAt(visitor, `/jobs/${seeded.jobs.dead}`);
    assert.deepEqual(visitor.taken(), []);
    await visitor.leave();
  });

  test('Ctrl+K finds a scope by its beginning, and the arrow keys choose', async () => {
    const visitor = await Visitor.signedIn(browser, server);
    await find(visitor, 'acme/research/', 'acme/research/scout');
    const active = () => visitor.page.locator('dialog.palette a.is-active').innerText();
    assert.match(await active(), /acme\/research\/sage/);
    assert.equal(await visitor.page.locator('dialog.palette a[aria-selected=true]').count(), 1);
    await visitor.page.keyboard.press('ArrowDown');
    assert.match(await active(), /acme\/research\/scout/);
    await visitor.page.keyboard.press('Enter');
    await isAt(visitor, '/budgets/acme/research/scout');
    await visitor.leave();
  });

  test('Ctrl+K finds a queue and a page, and Enter opens the first result', async () => {
    const visitor = await Visitor.signedIn(browser, server);
    await find(visitor, 'medi', 'media');
    await visitor.page.keyboard.press('Enter');
    await isAt(visitor, '/queues/media');
    await find(visitor, 'sched', 'Schedules');
    await visitor.page.keyboard.press('Enter');
    await isAt(visitor, '/schedules');
    await visitor.leave();
  });

  test('the palette finds a hold, and says when it finds nothing', async () => {
    const visitor = await Visitor.signedIn(browser, server);
    await find(visitor, seeded.holds[0], seeded.holds[0]);
    await visitor.page.keyboard.press('Enter');
    await visitor.page.waitForURL(/\/journal\?stream=/);
    await visitor.sees('#journal', 'hold.placed');
    await visitor.open('/search?q=zzzz');
    await visitor.sees('main', 'Nothing found');
    await visitor.leave();
  });

  test('Escape closes the palette and gives the focus back', async () => {
    const visitor = await Visitor.signedIn(browser, server);
    await visitor.open('/jobs');
    await visitor.page.locator('main [name=kind]').focus();
    await visitor.page.keyboard.press('Control+k');
    await visitor.page.waitForSelector('dialog.palette[open]');
    await visitor.page.keyboard.press('Escape');
    await visitor.page.waitForSelector('dialog.palette:not([open])', { state: 'attached' });
    assert.equal(await visitor.page.evaluate(() => document.activeElement.getAttribute('name')), 'kind');
    await visitor.leave();
  });

  test('the first Tab leads to a link that skips the navigation', async () => {
    const visitor = await Visitor.signedIn(browser, server);
    await visitor.open('/jobs');
    await visitor.page.keyboard.press('Tab');
    const skip = visitor.page.locator('a.skip');
    assert.ok(await skip.evaluate((link) => link === document.activeElement));
    assert.ok(await skip.evaluate((link) => {
      const box = link.getBoundingClientRect();
      return box.top >= 0 && box.left >= 0 && box.width > 20 && box.height > 10;
    }), 'it is visible while it has the focus');
    await visitor.page.keyboard.press('Enter');
    await visitor.page.keyboard.press('Tab');
    assert.ok(await visitor.page.evaluate(() => document.querySelector('main').contains(document.activeElement)), 'the next Tab is in the content');
    await visitor.leave();
  });

  test('everything on the list of jobs is reached by Tab, and the focus is always visible', async () => {
    const visitor = await Visitor.signedIn(browser, server);
    await visitor.open('/jobs?queue=media');
    const wanted = await visitor.page.evaluate(() => {
      const all = document.querySelectorAll('a[href], button, input, select, summary');
      const seen = [...all].filter((element) => element.checkVisibility({ visibilityProperty: true }) && !element.disabled && !element.closest('dialog')
        && element.type !== 'hidden' && !(element.closest('details:not([open])') && element.tagName !== 'SUMMARY'));
      // Of the choices of a group, Tab reaches one; the arrow keys reach the others.
      const reached = seen.filter((element) => element.type !== 'radio' || element.checked);
      reached.forEach((element, number) => { element.dataset.wanted = number; });
      return reached.length;
    });
    assert.ok(wanted > 30, `${wanted} elements`);
    const reached = new Set();
    const invisible = [];
    for (let presses = 0; presses < wanted + 20; presses += 1) {
      await visitor.page.keyboard.press('Tab');
      const at = await visitor.page.evaluate(() => {
        const element = document.activeElement;
        // The outline of a chip is drawn around its label.
        const drawn = element.type === 'radio' ? element.nextElementSibling : element;
        const style = getComputedStyle(drawn);
        const seen = (style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 1) || style.boxShadow !== 'none';
        return { number: element.dataset.wanted, seen, name: `${element.tagName} ${element.className} ${element.textContent.trim().slice(0, 20)}`, body: element === document.body };
      });
      if (at.number !== undefined) reached.add(at.number);
      if (!at.body && !at.seen) invisible.push(at.name);
    }
    const missed = await visitor.page.evaluate((done) => [...document.querySelectorAll('[data-wanted]')].filter((element) => !done.includes(element.dataset.wanted))
      .map((element) => element.outerHTML.slice(0, 120)), [...reached]);
    assert.deepEqual(missed, []);
    assert.deepEqual([...new Set(invisible)], []);
    await visitor.leave();
  });

  test('an act is done with the keyboard alone', async () => {
    const visitor = await Visitor.signedIn(browser, server);
    await visitor.open('/queues/embed');
    await visitor.page.locator('main summary', { hasText: 'Pause' }).focus();
    await visitor.page.keyboard.press('Enter');
    // The menu opens with the cursor in its first field.
    await visitor.page.waitForFunction(() => document.activeElement?.name === 'reason');
    await visitor.page.keyboard.type('by keyboard');
    await Promise.all([visitor.page.waitForEvent('framenavigated'), visitor.page.keyboard.press('Enter')]);
    assert.match(await visitor.flash(), /embed is paused/);
    const { items } = await server.api().get('/v1/journal?kind=queue&limit=1000');
    assert.equal(items.at(-1).reason, 'by keyboard');
    await visitor.leave();
  });

  test('a menu is closed by Escape, which gives the focus back', async () => {
    const visitor = await Visitor.signedIn(browser, server);
    await visitor.open('/budgets/acme');
    const summary = visitor.page.locator('main summary', { hasText: 'Credit' });
    await summary.focus();
    await visitor.page.keyboard.press('Enter');
    await visitor.page.keyboard.press('Tab');
    await visitor.page.keyboard.press('Escape');
    assert.equal(await visitor.page.locator('main details[open]').count(), 0);
    assert.ok(await summary.evaluate((element) => element === document.activeElement));
    await visitor.leave();
  });

  test('the navigation opens on a narrow screen by keyboard', async () => {
    const visitor = await Visitor.signedIn(browser, server, OPERATOR, { width: 390 });
    await visitor.open('/');
    assert.ok(await visitor.page.locator('nav#nav').isHidden());
    await visitor.page.locator('button.nav-toggle').focus();
    await visitor.page.keyboard.press('Enter');
    await visitor.page.locator('nav#nav a', { hasText: 'Queues' }).waitFor({ state: 'visible' });
    await visitor.page.locator('nav#nav a', { hasText: 'Queues' }).focus();
    await visitor.page.keyboard.press('Enter');
    await isAt(visitor, '/queues');
    await visitor.leave();
  });

  test('with reduced motion nothing moves', async () => {
    const visitor = await Visitor.signedIn(browser, server, OPERATOR, { reducedMotion: 'reduce' });
    for (const path of ['/', `/jobs/${seeded.jobs.running}`, '/jobs', '/budgets/acme']) {
      await visitor.openLive(path);
      await visitor.page.keyboard.press('Control+k');
      const moving = await visitor.page.evaluate(() => document.getAnimations().filter((animation) => animation.playState === 'running').map((animation) => animation.animationName ?? animation.transitionProperty));
      assert.deepEqual(moving, [], path);
    }
    await visitor.leave();
  });

  test('the chosen theme stays after the page is loaded again', async () => {
    const visitor = await Visitor.signedIn(browser, server, OPERATOR, { scheme: 'light' });
    await visitor.open('/');
    const ground = () => visitor.page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    const light = await ground();
    await visitor.page.locator('header details.menu summary').last().click();
    await visitor.page.getByRole('button', { name: 'Dark theme' }).click();
    const dark = await ground();
    assert.notEqual(dark, light);
    await visitor.open('/jobs');
    assert.equal(await ground(), dark);
    await visitor.leave();
  });

  test('an id is copied by its button', async () => {
    const visitor = await Visitor.signedIn(browser, server, OPERATOR, { permissions: ['clipboard-read', 'clipboard-write'] });
    await visitor.open(`/jobs/${seeded.jobs.dead}`);
    await visitor.page.locator('#page-head button.copy').focus();
    await visitor.page.keyboard.press('Enter');
    await visitor.page.locator('#announce', { hasText: 'Copied' }).waitFor({ state: 'attached' });
    assert.equal(await visitor.page.evaluate(() => navigator.clipboard.readText()), seeded.jobs.dead);
    await visitor.leave();
  });
});

describe('without JavaScript', () => {
  let server, browser, seeded, visitor;
  before(async () => {
    [server, browser] = await Promise.all([Server.start(), launch()]);
    seeded = await seed(server);
    visitor = await Visitor.arrive(browser, server, { javaScriptEnabled: false });
  });
  after(async () => {
    await browser.close();
    await server.stop();
  });

  test('one signs in, and every page renders', async () => {
    await visitor.signIn(OPERATOR);
    for (const path of ['/', '/budgets', '/budgets/acme', '/jobs', `/jobs/${seeded.jobs.dead}`, '/queues', '/dead', '/journal', '/tokens', '/search']) {
      const answer = await visitor.open(path);
      assert.equal(answer.status(), 200, path);
    }
    assert.deepEqual(visitor.taken(), []);
  });

  test('a page does not claim to be connecting', async () => {
    await visitor.open('/');
    assert.ok(await visitor.page.locator('#live').isHidden());
  });

  test('filters and search work', async () => {
    await visitor.open('/jobs');
    await visitor.page.locator('label.chip', { hasText: 'dead' }).click();
    await visitor.submit(visitor.page.getByRole('button', { name: 'Filter' }));
    assert.equal(await visitor.page.locator('#jobs tbody tr').count(), 3);
    await visitor.page.locator('a.search').click();
    await visitor.page.waitForURL(/\/search/);
    await visitor.page.fill('main [name=q]', 'acme/research/scout');
    await visitor.submit(visitor.page.getByRole('button', { name: 'Find' }));
    assert.match(visitor.page.url(), /scout/);
  });

  test('acts work, on one job and on a selection', async () => {
    await visitor.open(`/jobs/${seeded.jobs.dead}`);
    await visitor.act('Retry', { reason: 'by hand' });
    assert.match(await visitor.flash(), /runs again/);
    assert.equal((await server.api().job(seeded.jobs.dead)).state, 'queued');
    await visitor.open('/jobs?state=dead');
    const box = visitor.page.locator('#jobs tbody input[type=checkbox]').first();
    const id = await box.getAttribute('value');
    await box.check();
    await visitor.submit(visitor.page.locator('.actions').getByRole('button', { name: 'Discard…' }));
    assert.match(await visitor.page.locator('h1').innerText(), /Discard 1 jobs?\?/);
    await visitor.submit(visitor.page.getByRole('button', { name: /^Discard 1 job/ }));
    assert.notEqual((await server.api().job(id)).state, 'dead');
  });

  test('one signs out', async () => {
    await visitor.open('/');
    await visitor.page.locator('header details.menu summary').last().click();
    await visitor.submit(visitor.page.getByRole('button', { name: 'Sign out' }));
    await visitor.open('/jobs');
    assert.match(visitor.page.url(), /\/login/);
  });
});
