// A role sees its pages and no others, and a tenant sees nothing of another one.

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { OPERATOR, Server, Visitor, launch } from './support.mjs';
import { seed } from './seed.mjs';

const EVERYTHING = ['Overview', 'Budgets', 'Jobs', 'Queues', 'Schedules', 'Blobs', 'Dead jobs', 'Workers', 'Grants', 'Journal', 'Tokens', 'Settings'];
const WITHOUT = (...labels) => EVERYTHING.filter((label) => !labels.includes(label));
const PATHS = {
  Overview: '/', Budgets: '/budgets', Jobs: '/jobs', Queues: '/queues', Schedules: '/schedules', Blobs: '/blobs', 'Dead jobs': '/dead', Workers: '/workers',
  Grants: '/grants', Journal: '/journal', Tokens: '/tokens', Settings: '/settings',
};

describe('roles', () => {
  let server, browser, api, seeded;
  before(async () => {
    [server, browser] = await Promise.all([Server.start(), launch()]);
    api = server.api();
    seeded = await seed(server);
    seeded.keys.monitor = await server.key('metrics', 'monitor');
  });
  after(async () => {
    await browser.close();
    await server.stop();
  });

  const formToken = (visitor) => visitor.page.locator('form[action="/logout"] input[name=form]').first().getAttribute('value');

  /** Sends a form as a page of the visitor would, and returns the status. */
  async function post(visitor, path, fields = {}) {
    const form = await formToken(visitor);
    const answer = await visitor.context.request.post(path, { form: { form, ...fields }, maxRedirects: 0, headers: { 'sec-fetch-site': 'same-origin' } });
    return answer.status();
  }

  /** Every change is an event, so that nothing has changed while the newest one stays. */
  const newestPosition = async () => (await api.get('/v1/journal?limit=1&order=newest')).items[0].position;

  const acts = () => [
    ['/budgets/acme/freeze'], ['/budgets/acme/unfreeze'], ['/budgets/acme/credit', { amount: '1' }], ['/budgets/acme/limits', { amount: '1', window: 'day' }],
    ['/budgets/new', { scope: 'evil', unit: 'usd', amount: '1', window: 'day' }], ['/queues/media/pause'], ['/queues/reports/resume'],
    [`/jobs/${seeded.jobs.dead}/retry`], [`/jobs/${seeded.jobs.dead}/discard`], [`/jobs/${seeded.jobs.queued}/cancel`],
    [`/jobs/${seeded.jobs.queued}/edit`, { priority: '9' }], ['/jobs/-/act', { act: 'retry-all', state: 'dead' }], ['/jobs/-/act', { act: 'cancel-all' }],
    ['/schedules/nightly/run'], ['/schedules/nightly/pause'], [`/grants/${seeded.grants[0].id}/revoke`],
    [`/blobs/${seeded.blobs.made}/delete`], [`/blobs/${seeded.blobs.deleted}/restore`], [`/blobs/${seeded.blobs.made}/link`, { hours: '1' }],
    [`/blobs/${seeded.blobs.made}/refer`, { name: 'evil' }], [`/blobs/${seeded.blobs.page}/release`, { name: 'report:42' }],
    ['/tokens/key', { name: 'evil', role: 'admin' }], ['/tokens/worker', { name: 'evil', queues: '*', kinds: '*' }], ['/settings/verify'],
  ];

  for (const [role, labels] of Object.entries({
    admin: EVERYTHING,
    viewer: WITHOUT('Tokens'),
    user: WITHOUT('Grants', 'Journal', 'Tokens'),
    agent: WITHOUT('Grants', 'Journal', 'Tokens'),
    monitor: ['Settings'],
  })) {
    test(`the navigation of ${role === 'admin' || role === 'agent' ? 'an' : 'a'} ${role} leads to its pages, which are without fault, and to no others`, async () => {
      const visitor = await Visitor.arrive(browser, server);
      await visitor.open('/login');
      await visitor.page.fill('#token', seeded.keys[role]);
      await visitor.submit(visitor.page.getByRole('button', { name: 'Sign in' }));
      assert.equal(await visitor.page.locator('nav#nav a[aria-current]').count(), 1, 'the first page after the login is one of its own');
      const shown = await visitor.page.locator('nav#nav li a').allInnerTexts();
      assert.deepEqual(shown.map((label) => label.trim()), labels);
      for (const label of labels) {
        const answer = await visitor.openFollowing(PATHS[label]);
        assert.equal(answer.status(), 200, label);
        assert.deepEqual(visitor.taken(), [], label);
      }
      for (const label of WITHOUT(...labels)) {
        const answer = await visitor.open(PATHS[label]);
        // The first page after the login leads on to one that the role has.
        if (label === 'Overview') {
          assert.equal(new URL(visitor.page.url()).pathname, '/settings');
          continue;
        }
        assert.equal(answer.status(), 403, label);
        await visitor.sees('body', 'Not allowed');
      }
      await visitor.leave();
    });
  }

  test('the pages of a budget and a job are live for a user, who may not read the journal', async () => {
    const visitor = await Visitor.signedIn(browser, server, seeded.keys.user);
    for (const path of ['/budgets/acme', `/jobs/${seeded.jobs.queued}`, '/queues/media']) {
      await visitor.openLive(path);
      assert.deepEqual(visitor.taken(), [], path);
    }
    await visitor.leave();
  });

  test('a viewer is offered no act', async () => {
    const visitor = await Visitor.signedIn(browser, server, seeded.keys.viewer);
    const paths = [...Object.values(PATHS).filter((path) => path !== '/tokens'), '/budgets/acme', '/budgets/acme%2Fsupport', '/queues/media',
      '/queues/reports', ...Object.values(seeded.blobs).map((id) => `/blobs/${id}`), ...Object.values(seeded.jobs).map((id) => `/jobs/${id}`)];
    for (const path of paths) {
      await visitor.open(path);
      const buttons = await visitor.page.locator('main form[method=post] button:not([type=button]), main details.menu summary').allInnerTexts();
      assert.deepEqual(buttons, [], path);
    }
    const answer = await visitor.open('/budgets/new');
    assert.equal(answer.status(), 403, 'the form of an act that is not allowed');
    await visitor.leave();
  });

  for (const role of ['viewer', 'monitor']) {
    test(`acts that a ${role} sends anyway are refused with 403 and change nothing`, async () => {
      const visitor = await Visitor.arrive(browser, server);
      await visitor.open('/login?next=%2Fsettings');
      await visitor.page.fill('#token', seeded.keys[role]);
      await visitor.submit(visitor.page.getByRole('button', { name: 'Sign in' }));
      const events = await newestPosition();
      const statuses = {};
      for (const [path, fields] of acts()) statuses[`${path} ${JSON.stringify(fields ?? {})}`] = await post(visitor, path, fields);
      assert.deepEqual(Object.entries(statuses).filter(([, status]) => status !== 403), []);
      assert.equal(await newestPosition(), events, 'the journal has new events');
      await visitor.leave();
    });
  }

  test('a user may cancel a job and change blobs, and nothing else', async () => {
    const visitor = await Visitor.signedIn(browser, server, seeded.keys.user);
    const id = await api.enqueue('embed', 'text.embed');
    await visitor.open(`/jobs/${id}`);
    const offered = await visitor.page.locator('main summary').allInnerTexts();
    assert.deepEqual(offered.filter((label) => ['Retry', 'Cancel', 'Edit', 'Discard'].includes(label)), ['Cancel']);
    await visitor.act('Cancel', { reason: 'by its owner' });
    assert.equal((await api.job(id)).state, 'cancelled');
    const statuses = [];
    for (const [path, fields] of acts().filter(([path]) => !path.endsWith('/cancel') && !path.startsWith('/blobs/'))) {
      const status = await post(visitor, path, fields);
      if (status !== 403 && !(path === '/jobs/-/act' && fields.act === 'cancel-all')) statuses.push(`${path}: ${status}`);
    }
    assert.deepEqual(statuses, []);
    await visitor.leave();
  });

  test('an admin may not make a monitor, and the page says so', async () => {
    const visitor = await Visitor.signedIn(browser, server, seeded.keys.admin);
    await visitor.open('/tokens');
    const roles = await visitor.page.locator('select[name=role] option').allInnerTexts();
    if (roles.includes('monitor')) {
      await visitor.act('New key', { name: 'm', role: 'monitor' });
      assert.equal(await visitor.page.locator('.flash[role=alert]').count(), 1);
    }
    assert.ok(!(await api.get('/v1/keys?limit=1000')).items.some((key) => key.name === 'm'));
    await visitor.leave();
  });

  test('the name of the visitor and the role are on every page', async () => {
    const visitor = await Visitor.signedIn(browser, server, seeded.keys.viewer);
    await visitor.open('/');
    await visitor.page.locator('header details.menu summary').last().click();
    assert.match(await visitor.page.locator('header').innerText(), /viewer/);
    assert.match(await visitor.page.locator('header').innerText(), /Signed in as audit/);
    await visitor.leave();
  });
});

describe('tenants', () => {
  let server, browser, anna, job;
  const LIFETIME = [{ amount: 5_000_000, window: 'lifetime' }];
  before(async () => {
    [server, browser] = await Promise.all([Server.start(), launch()]);
    anna = await server.key('anna', 'admin', 'alpha');
    for (const tenant of ['alpha', 'beta']) {
      const api = server.api(OPERATOR, tenant);
      await api.budget(`${tenant}-money`, { unit: 'usd', limits: LIFETIME });
      await api.spend(`${tenant}-money`, 5_000_000);
      await api.put(`/v1/schedules/${tenant}-nightly`, { cron: '0 3 * * *', queue: `${tenant}-queue`, kind: `${tenant}.report` });
      const id = await api.enqueue(`${tenant}-queue`, `${tenant}.kind`, { tags: [`${tenant}-tag`] });
      if (tenant === 'beta') job = id;
      await api.enqueue(`${tenant}-queue`, `${tenant}.dies`);
      const [leased] = await api.lease(`${tenant}-queue`, `${tenant}.dies`, { worker: `${tenant}-worker` });
      await api.fail(leased, 'io', `${tenant} lost its disk`, { retryable: false });
      await api.post('/v1/grants', { purpose: 'upload', subject: `${tenant}-person`, ttl_ms: 3_600_000 });
      await server.key(`${tenant}-shop`, 'user', tenant);
    }
  });
  after(async () => {
    await browser.close();
    await server.stop();
  });

  test('an admin of one tenant sees nothing of another one', async () => {
    const visitor = await Visitor.signedIn(browser, server, anna);
    for (const path of Object.values(PATHS)) {
      for (const suffix of ['', '?tenant=beta']) {
        await visitor.open(path + suffix);
        const shown = (await visitor.page.content()).replaceAll(/tenant=beta|value="beta"|>beta</g, '');
        assert.doesNotMatch(shown, /beta/, path + suffix);
      }
    }
    await visitor.open('/budgets');
    await visitor.sees('main', 'alpha-money');
    for (const path of ['/budgets/beta-money', '/queues/beta-queue', `/jobs/${job}`, '/search?q=beta&part=1']) {
      const answer = await visitor.open(path);
      if (/budgets|jobs/.test(path)) assert.equal(answer.status(), 404, path);
      assert.doesNotMatch(await visitor.page.locator('body').innerText(), /beta\.kind|lost its disk|\$5\.00/, path);
    }
    await visitor.leave();
  });

  test('an admin cannot act in another tenant', async () => {
    const visitor = await Visitor.signedIn(browser, server, anna);
    await visitor.open('/');
    const form = await visitor.page.locator('form[action="/logout"] input[name=form]').getAttribute('value');
    const answer = await visitor.context.request.post('/budgets/beta-money/freeze?tenant=beta', { form: { form }, maxRedirects: 0 });
    assert.ok([403, 404].includes(answer.status()), String(answer.status()));
    assert.equal((await server.api(OPERATOR, 'beta').get('/v1/budgets/beta-money')).frozen, false);
    await visitor.leave();
  });

  test('the operator sees all tenants in a list and switches to one', async () => {
    const visitor = await Visitor.signedIn(browser, server);
    await visitor.open('/');
    await visitor.page.locator('header .menu > summary').first().click();
    await visitor.page.getByRole('link', { name: 'All tenants' }).click();
    await visitor.page.waitForURL(/\/tenants$/);
    const names = await visitor.page.locator('main tbody th a').allInnerTexts();
    assert.deepEqual(names, ['alpha', 'beta']);
    await visitor.page.getByRole('link', { name: 'alpha', exact: true }).click();
    await visitor.page.waitForURL(/\/\?tenant=alpha$/);
    await visitor.sees('main', 'alpha-money');
    await visitor.leave();
  });

  test('a tenant that does not exist is said to be none, on every page but those where one begins', async () => {
    const visitor = await Visitor.signedIn(browser, server);
    for (const path of ['/', '/jobs', '/budgets/x', '/journal']) {
      const answer = await visitor.open(`${path}?tenant=alhpa`);
      assert.equal(answer.status(), 404, path);
      await visitor.sees('h1', 'No such tenant');
    }
    await visitor.sees('main', /alpha.*beta/s);
    await visitor.page.getByRole('link', { name: 'Define a budget for alhpa' }).click();
    await visitor.sees('h1', 'New budget');
    await visitor.leave();
    // The tenant of a token that is not an operator's is never asked for.
    const admin = await Visitor.signedIn(browser, server, await server.key('someone', 'admin', 'alpha'));
    assert.equal((await admin.open('/tenants')).status(), 403);
    await admin.leave();
  });

  test('the operator switches tenants by the URL, and links, forms and events stay in the tenant', async () => {
    const visitor = await Visitor.signedIn(browser, server);
    await visitor.open('/budgets?tenant=alpha');
    await visitor.sees('main', 'alpha-money');
    assert.doesNotMatch(await visitor.page.locator('main').innerText(), /beta-money/);
    await visitor.page.getByRole('link', { name: 'alpha-money' }).click();
    await visitor.page.waitForURL(/tenant=alpha/);
    await visitor.act('Freeze', { reason: 'by the operator' });
    assert.match(visitor.page.url(), /tenant=alpha/);
    assert.ok((await server.api(OPERATOR, 'alpha').get('/v1/budgets/alpha-money')).frozen);
    for (const link of await visitor.page.locator('nav#nav li a').all()) assert.match(await link.getAttribute('href'), /tenant=alpha/);
    // Live, in this tenant.
    await visitor.openLive('/queues/alpha-queue?tenant=alpha');
    await server.api(OPERATOR, 'alpha').post('/v1/queues/alpha-queue/pause', { reason: 'test' });
    await visitor.sees('h1', 'paused');
    // By the menu.
    await visitor.page.locator('header details.menu summary').first().click();
    await visitor.page.fill('#tenant', 'beta');
    await visitor.submit(visitor.page.locator('header form[method=get] button'));
    assert.match(visitor.page.url(), /tenant=beta/);
    await visitor.open('/jobs?tenant=beta&state=queued');
    await visitor.sees('#jobs', 'beta.kind');
    await visitor.submit(visitor.page.locator('form.filters button', { hasText: 'Filter' }));
    assert.match(visitor.page.url(), /tenant=beta/);
    await visitor.open('/journal?tenant=beta');
    await visitor.submit(visitor.page.locator('form.filters button', { hasText: 'Search' }));
    await visitor.sees('#journal', 'beta');
    await visitor.open('/search?tenant=beta&q=beta');
    await visitor.submit(visitor.page.getByRole('button', { name: 'Find' }));
    assert.match(visitor.page.url(), /tenant=beta/, 'the search stays in the tenant');
    await visitor.leave();
  });

  test('without a tenant in the URL the operator is in the built-in one', async () => {
    const visitor = await Visitor.signedIn(browser, server);
    await visitor.open('/budgets');
    assert.doesNotMatch(await visitor.page.locator('main').innerText(), /alpha-money|beta-money/);
    await visitor.leave();
  });
});
