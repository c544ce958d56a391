// Writes the pictures of the documents: a day of a company that is the same every time, on a server with a clock of its own.

import assert from 'node:assert/strict';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { OPERATOR, ROOT, Server, Visitor, launch } from './support.mjs';
import { seed } from './seed.mjs';

const FOLDER = join(ROOT, 'docs/images');
const MIDNIGHT = Date.UTC(2026, 10, 17);
/** When the pictures are taken, in minutes after midnight. */
const NOW = 14 * 60 + 2;
const CENT = 10_000;

/** The clock of the server: the real one, moved by what a file says. */
class Clock {
  constructor() {
    const libraries = readdirSync('/usr/lib').map((name) => `/usr/lib/${name}/faketime/libfaketimeMT.so.1`).filter((path) => existsSync(path));
    assert.ok(libraries.length, 'the pictures need libfaketime: apt-get install faketime');
    this.folder = mkdtempSync(join(tmpdir(), 'bursar-browser-'));
    this.file = join(this.folder, 'clock');
    this.env = { LD_PRELOAD: libraries[0], FAKETIME_TIMESTAMP_FILE: this.file, FAKETIME_NO_CACHE: '1', FAKETIME_DONT_FAKE_MONOTONIC: '1', TZ: 'UTC' };
    this.set(0);
  }

  /** Sets the time, in minutes after midnight. */
  set(minute) {
    const seconds = (MIDNIGHT + minute * 60_000 - Date.now()) / 1000;
    writeFileSync(this.file, `${seconds < 0 ? '' : '+'}${seconds.toFixed(3)}\n`);
  }

  remove() {
    rmSync(this.folder, { recursive: true, force: true });
  }
}

/** Returns numbers from 0 to 1 that are the same in every run. */
function dice() {
  let state = 20_261_117;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

/** Plays the day up to the pictures: spend every ten minutes, and jobs in the last hour. Returns the job of the picture. */
async function day(api, clock) {
  const roll = dice();
  const spend = (scope, most) => api.spend(scope, Math.round(most * (0.3 + 0.7 * roll())) * CENT);
  await api.spend('tokens/gateway', 123_456);
  for (let minute = 10; minute < NOW - 60; minute += 10) {
    clock.set(minute);
    const busy = minute > 7 * 60 ? 1 : 0.3;
    await spend('acme/media', 50 * busy);
    await spend('acme/research/sage', 35 * busy);
    if (minute % 60 === 0) await api.spend('acme/research/scout', 30 * CENT);
  }
  for (let minute = NOW - 60; minute < NOW; minute += 1) {
    clock.set(minute);
    const tide = 1 + Math.sin(minute / 9);
    await spend('acme/media', 30 + 45 * tide);
    await spend('acme/research/sage', 10 + 10 * tide);
    if (minute % 5 === 0) await spend('acme/support', 40);
    await work(api, roll, 'mail', 'mail.send', 1 + Math.round(3 * tide * roll()), 'post-1', null);
    await work(api, roll, 'media', 'video.generate', 1 + Math.round(2 * tide * roll()), `gpu-${1 + (minute % 2)}`, 'acme/media/pixel');
  }
  await api.spend('acme/research/scout', 110 * CENT);
  // The second attempt of this job runs when the picture is taken.
  clock.set(NOW);
  const payload = { asset: 'harbour-7', seconds: 8, prompt: 'a harbour at dawn, slow pan' };
  const id = await api.order('acme/media/pixel', 40 * CENT, 'media', 'video.upscale', { payload, tags: ['trial'], key: 'customer-7' });
  const [first] = await api.lease('media', 'video.upscale', { worker: 'gpu-1' });
  clock.set(NOW + 0.5);
  await api.fail(first, 'timeout', 'no answer from provider', { usage: [{ amount: 9 * CENT }], retry_after_ms: 1 });
  clock.set(NOW + 0.6);
  await api.lease('media', 'video.upscale', { worker: 'gpu-2' });
  return id;
}

/** Enqueues jobs and works on them; some attempts fail, and a few jobs die. */
async function work(api, roll, queue, kind, count, worker, scope) {
  for (let number = 0; number < count; number += 1) {
    if (scope) await api.order(scope, 12 * CENT, queue, kind);
    else await api.enqueue(queue, kind);
    let [job] = await api.lease(queue, kind, { worker });
    if (roll() < 0.12) {
      await api.fail(job, 'timeout', 'no answer from provider', { retry_after_ms: 1 });
      [job] = await api.lease(queue, kind, { worker });
    }
    await api.complete(job, scope ? { usage: [{ amount: Math.round(4 + 6 * roll()) * CENT }] } : {});
  }
}

const written = process.env.UPDATE_SCREENSHOTS === '1';

describe('pictures for the documents', { skip: !written && 'UPDATE_SCREENSHOTS=1 writes them' }, () => {
  let server, browser, clock, job;
  before(async () => {
    clock = new Clock();
    [server, browser] = await Promise.all([Server.start([], clock.env), launch()]);
    await seed(server, async (api) => { job = await day(api, clock); });
    clock.set(NOW + 1);
    mkdirSync(FOLDER, { recursive: true });
  });
  after(async () => {
    await browser.close();
    await server.stop();
    clock.remove();
  });

  for (const [name, path, scheme] of [
    ['overview', () => '/', 'light'],
    ['overview-dark', () => '/', 'dark'],
    ['job', () => `/jobs/${job}`, 'light'],
    ['budget', () => '/budgets/acme%2Fmedia', 'light'],
  ]) {
    test(`${name}.png is written`, async () => {
      const visitor = await Visitor.signedIn(browser, server, OPERATOR, { scheme, reducedMotion: 'reduce' });
      await visitor.page.clock.setFixedTime(MIDNIGHT + (NOW + 1) * 60_000);
      await visitor.openLive(path());
      if (name === 'job') {
        const { id, lease } = await server.api().job(job);
        await server.api().post(`/v1/jobs/${id}/progress`, { fence: lease.fence, percent: 62, message: 'rendering frame 149 of 240' });
        await visitor.sees('#progress-percent', '62 %');
      }
      await visitor.page.mouse.move(0, 0);
      await visitor.page.screenshot({ path: join(FOLDER, `${name}.png`), animations: 'disabled' });
      assert.deepEqual(visitor.taken(), []);
      await visitor.leave();
    });
  }
});
