// Signing in and out, what cookies and headers protect, and forms that other sites send.

import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { after, before, describe, test } from 'node:test';
import { OPERATOR, Server, Visitor, knows, launch, startDev } from './support.mjs';

const LIMIT = { amount: 1_000_000, window: 'lifetime' };

describe('sessions', () => {
  let server, browser, api;
  before(async () => {
    [server, browser] = await Promise.all([Server.start(), launch()]);
    api = server.api();
    await api.budget('team', { unit: 'usd', limits: [LIMIT] });
  });
  after(async () => {
    await browser.close();
    await server.stop();
  });

  test('a page allows only its own style sheet, script and images', async () => {
    const visitor = await Visitor.signedIn(browser, server);
    for (const path of ['/', '/login', '/jobs', '/budgets/team', '/tokens', '/jobs/job_01j9zq3v4w5x6y7z8abcdefghj']) {
      const headers = (await visitor.open(path)).headers();
      const policy = Object.fromEntries(headers['content-security-policy'].split(';').map((part) => {
        const [name, ...values] = part.trim().split(/\s+/);
        return [name, values.join(' ')];
      }));
      assert.equal(policy['default-src'], "'none'", path);
      for (const name of ['style-src', 'script-src', 'img-src', 'connect-src', 'form-action']) assert.equal(policy[name], "'self'", `${path} ${name}`);
      for (const name of ['base-uri', 'frame-ancestors']) assert.equal(policy[name], "'none'", `${path} ${name}`);
      assert.doesNotMatch(headers['content-security-policy'], /unsafe|\*|data:/, path);
      assert.equal(headers['x-content-type-options'], 'nosniff', path);
      assert.equal(headers['cache-control'], 'no-store', path);
    }
    await visitor.leave();
  });

  test('the session cookie is hidden from scripts and other sites', async () => {
    const visitor = await Visitor.arrive(browser, server);
    await visitor.signIn(OPERATOR);
    const cookies = await visitor.context.cookies();
    const session = cookies.find((cookie) => cookie.name === 'bursar_session');
    assert.ok(session.httpOnly);
    assert.equal(session.sameSite, 'Strict');
    assert.equal(session.path, '/');
    assert.ok(session.expires - Date.now() / 1000 <= 12 * 3_600 + 5);
    assert.ok(!(await visitor.page.evaluate(() => document.cookie)).includes('bursar_session'));
    for (const cookie of cookies) assert.ok(cookie.httpOnly && cookie.sameSite === 'Strict', cookie.name);
    await visitor.leave();
  });

  test('over a proxy with HTTPS the session cookie is sent by HTTPS only', async () => {
    const trusting = await Server.start(['--trusted-proxies', '127.0.0.0/8']);
    const answer = await fetch(`${trusting.url}/login`, {
      method: 'POST', redirect: 'manual', body: new URLSearchParams({ token: OPERATOR }),
      headers: { 'x-forwarded-proto': 'https', 'x-forwarded-for': '192.0.2.7' },
    });
    assert.match(answer.headers.get('set-cookie'), /; Secure/);
    await trusting.stop();
  });

  test('a page without a session leads to the login and then to the page', async () => {
    const visitor = await Visitor.arrive(browser, server);
    await visitor.open('/jobs?state=dead&queue=media');
    assert.equal(new URL(visitor.page.url()).pathname, '/login');
    await visitor.page.fill('#token', OPERATOR);
    await visitor.submit(visitor.page.getByRole('button', { name: 'Sign in' }));
    assert.equal(visitor.page.url(), `${server.url}/jobs?state=dead&queue=media`);
    assert.deepEqual(visitor.taken(), []);
    await visitor.leave();
  });

  test('the login leads to no other site', async () => {
    for (const next of ['https://example.org/', '//example.org/', '/\\example.org']) {
      const visitor = await Visitor.arrive(browser, server);
      await visitor.open(`/login?next=${encodeURIComponent(next)}`);
      await visitor.page.fill('#token', OPERATOR);
      await visitor.submit(visitor.page.getByRole('button', { name: 'Sign in' }));
      assert.equal(visitor.page.url(), `${server.url}/`);
      await visitor.leave();
    }
  });

  test('signing out ends the session', async () => {
    const visitor = await Visitor.arrive(browser, server);
    await visitor.signIn(OPERATOR);
    const { value } = (await visitor.context.cookies()).find((cookie) => cookie.name === 'bursar_session');
    assert.ok(value);
    await visitor.page.locator('header details.menu summary').last().click();
    await visitor.submit(visitor.page.getByRole('button', { name: 'Sign out' }));
    assert.equal(new URL(visitor.page.url()).pathname, '/login');
    assert.ok(!(await visitor.context.cookies()).some((cookie) => cookie.name === 'bursar_session'));
    await visitor.open('/budgets');
    assert.equal(new URL(visitor.page.url()).pathname, '/login');
    await visitor.leave();
  });

  test('a revoked token ends the session at its next request', async () => {
    const key = await api.post('/v1/keys', { name: 'leaver', role: 'viewer' });
    const visitor = await Visitor.signedIn(browser, server, key.token);
    await visitor.open('/budgets/team');
    assert.match(await visitor.page.locator('h1').innerText(), /team/);
    await api.delete(`/v1/keys/${key.id}`);
    await visitor.page.getByRole('link', { name: 'Jobs', exact: true }).first().click();
    await visitor.sees('.flash', 'The session has ended');
    assert.equal(new URL(visitor.page.url()).pathname, '/login');
    assert.ok(!(await visitor.context.cookies()).some((cookie) => cookie.name === 'bursar_session'));
    await visitor.leave();
  });

  test('the login page names a command that exists', async () => {
    const visitor = await Visitor.arrive(browser, server);
    await visitor.open('/login');
    const command = await visitor.page.locator('.login-foot code').innerText();
    assert.match(command, /^bursar /);
    assert.ok(await knows(command), command);
    await visitor.leave();
  });

  test('a wrong token is refused with a message, and too many of them have to wait', async () => {
    const guarded = await Server.start();
    const visitor = await Visitor.arrive(browser, guarded);
    const attempt = async (token) => {
      await visitor.page.fill('#token', token);
      await visitor.submit(visitor.page.getByRole('button', { name: 'Sign in' }));
      return visitor.page.locator('[role=alert]').innerText();
    };
    await visitor.open('/login?next=%2Fqueues');
    assert.match(await attempt('bak_wrong'), /not valid/);
    assert.equal((await visitor.context.cookies()).length, 0);
    // The limit of an address is twenty attempts, and one more each second.
    const wrong = (number) => fetch(`${guarded.url}/login`, { method: 'POST', body: new URLSearchParams({ token: `bak_wrong_${number}` }) });
    let text = '';
    for (let rounds = 0; rounds < 10 && !/too many/i.test(text); rounds += 1) {
      await Promise.all(Array.from({ length: 25 }, (_, number) => wrong(number)));
      text = await attempt('bak_wrong');
    }
    assert.match(text, /too many/i);
    // A valid token is accepted all the same, and leads to the page that was asked for first.
    await visitor.page.fill('#token', OPERATOR);
    await visitor.submit(visitor.page.getByRole('button', { name: 'Sign in' }));
    assert.equal(visitor.page.url(), `${guarded.url}/queues`);
    await visitor.leave();
    await guarded.stop();
  });

  test('the link of `bursar dev` signs in once', async () => {
    const dev = await startDev();
    const first = await Visitor.arrive(browser, dev);
    await first.open(dev.link);
    assert.equal(first.page.url(), `${dev.url}/`);
    assert.ok(await first.page.locator('nav#nav a').count());
    const second = await Visitor.arrive(browser, dev);
    await second.open(dev.link);
    assert.match(await second.page.locator('[role=alert]').innerText(), /has been used/);
    assert.equal((await second.context.cookies()).length, 0);
    await second.open('/');
    assert.equal(new URL(second.page.url()).pathname, '/login');
    await first.leave();
    await second.leave();
    await dev.stop();
  });
});

describe('forged forms', () => {
  let server, browser, visitor, api;
  before(async () => {
    [server, browser] = await Promise.all([Server.start(), launch()]);
    api = server.api();
    await api.budget('team', { unit: 'usd', limits: [LIMIT] });
    visitor = await Visitor.signedIn(browser, server);
  });
  after(async () => {
    await browser.close();
    await server.stop();
  });

  const frozen = async () => (await api.get('/v1/budgets/team')).frozen;

  test('a form without its form token is refused and changes nothing', async () => {
    await visitor.open('/budgets/team');
    for (const change of ['remove', 'empty', 'wrong']) {
      await visitor.open('/budgets/team');
      await visitor.page.evaluate((how) => {
        const input = document.querySelector('form[action$="/freeze"] input[name=form]');
        if (how === 'remove') input.remove();
        else input.value = how === 'empty' ? '' : '00112233445566778899aabbccddeeff';
      }, change);
      const [answer] = await Promise.all([
        visitor.page.waitForResponse((response) => response.url().endsWith('/freeze')),
        visitor.act('Freeze'),
      ]);
      assert.equal(answer.status(), 403, change);
      await visitor.sees('main', 'nothing was changed');
      assert.equal(await frozen(), false, change);
    }
  });

  test('the form token of one session is refused in another', async () => {
    const other = await Visitor.signedIn(browser, server, await server.key('eve', 'admin'));
    await other.open('/budgets/team');
    const stolen = await other.page.locator('form[action$="/freeze"] input[name=form]').getAttribute('value');
    await visitor.open('/budgets/team');
    await visitor.page.locator('form[action$="/freeze"] input[name=form]').evaluate((input, value) => { input.value = value; }, stolen);
    await visitor.act('Freeze');
    assert.equal(await frozen(), false);
    await other.leave();
  });

  test('a form that another site sends is refused and changes nothing', async () => {
    await visitor.open('/budgets/team');
    const token = await visitor.page.locator('form[action$="/freeze"] input[name=form]').getAttribute('value');
    // The first site is another one and even knows the form token; the second is another port of this host, which gets the cookie.
    for (const [host, form] of [['localhost', token], ['127.0.0.1', '']]) {
      const page = `<form method="post" action="${server.url}/budgets/team/freeze"><input name="form" value="${form}"><button>Win</button></form>`;
      const site = createServer((_, answer) => answer.setHeader('content-type', 'text/html').end(page));
      await new Promise((done) => site.listen(0, '127.0.0.1', done));
      const lure = await visitor.context.newPage();
      await lure.goto(`http://${host}:${site.address().port}/`);
      await Promise.all([lure.waitForEvent('framenavigated'), lure.click('button')]);
      assert.equal(await frozen(), false, host);
      await lure.close();
      site.close();
    }
  });

  test('a request that names another origin is refused and changes nothing', async () => {
    const cookies = await visitor.context.cookies();
    await visitor.open('/budgets/team');
    const form = await visitor.page.locator('form[action$="/freeze"] input[name=form]').getAttribute('value');
    const headers = { cookie: cookies.map(({ name, value }) => `${name}=${value}`).join('; ') };
    const post = (more) => fetch(`${server.url}/budgets/team/freeze`, {
      method: 'POST', redirect: 'manual', headers: { ...headers, ...more }, body: new URLSearchParams({ form }),
    });
    // Browsers send `Sec-Fetch-Site` over HTTPS and to the machine itself; over plain HTTP they send only `Origin`.
    const refused = [{ 'sec-fetch-site': 'cross-site' }, { 'sec-fetch-site': 'same-site' }, { origin: 'https://example.org' }, { origin: 'null' }];
    for (const named of refused) assert.equal((await post(named)).status, 403, JSON.stringify(named));
    assert.equal(await frozen(), false);
    // The same request from the site itself is accepted, so it was the origin that was refused.
    assert.equal((await post({ origin: server.url, 'sec-fetch-site': 'same-origin' })).status, 303);
    assert.equal(await frozen(), true);
  });

  test('another site cannot sign a browser in', async () => {
    const answer = await fetch(`${server.url}/login`, {
      method: 'POST', redirect: 'manual', headers: { 'sec-fetch-site': 'cross-site' }, body: new URLSearchParams({ token: OPERATOR }),
    });
    assert.equal(answer.status, 403);
    assert.equal(answer.headers.get('set-cookie'), null);
  });
});
