// Writes the pictures of the documents. They show the same company every time; only times and ids differ.

import assert from 'node:assert/strict';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { OPERATOR, ROOT, Server, Visitor, launch } from './support.mjs';
import { seed } from './seed.mjs';

const FOLDER = join(ROOT, 'docs/images');

describe('pictures for the documents', { skip: process.env.UPDATE_SCREENSHOTS !== '1' && 'UPDATE_SCREENSHOTS=1 writes them' }, () => {
  let server, browser, seeded;
  before(async () => {
    [server, browser] = await Promise.all([Server.start(), launch()]);
    seeded = await seed(server);
    mkdirSync(FOLDER, { recursive: true });
  });
  after(async () => {
    await browser.close();
    await server.stop();
  });

  for (const [name, path, scheme] of [
    ['overview', () => '/', 'light'],
    ['overview-dark', () => '/', 'dark'],
    ['job', () => `/jobs/${seeded.jobs.retried}`, 'light'],
    ['budget', () => '/budgets/acme%2Fmedia', 'light'],
  ]) {
    test(`${name}.png is written`, async () => {
      const visitor = await Visitor.signedIn(browser, server, OPERATOR, { scheme, reducedMotion: 'reduce' });
      await visitor.openLive(path());
      await visitor.page.evaluate(() => document.fonts.ready);
      await visitor.page.screenshot({ path: join(FOLDER, `${name}.png`), animations: 'disabled' });
      assert.deepEqual(visitor.taken(), []);
      await visitor.leave();
    });
  }
});
