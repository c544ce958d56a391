// A server on a throwaway database, calls of its HTTP API, and a browser whose faults are collected.

import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { chromium } from 'playwright-core';

const HERE = dirname(fileURLToPath(import.meta.url));
export const ROOT = resolve(HERE, '../..');
export const PROGRAM = resolve(process.env.BURSAR_BIN ?? join(ROOT, 'target/debug/bursar'));
export const OPERATOR = 'operator-token-of-the-browser-tests-0123456789';
/** How long a test waits for a condition, in milliseconds. */
export const PATIENCE = 30_000;

/** Returns the environment without settings of the machine that runs the tests. */
function environment(more) {
  const own = Object.entries(process.env).filter(([name]) => !name.startsWith('BURSAR_'));
  return { ...Object.fromEntries(own), ...more };
}

/** Starts a program in `folder` and returns it with the first match of `pattern` in its output. */
function run(program, options, folder, env, pattern) {
  const child = spawn(program, options, { cwd: folder, env: environment(env), stdio: ['ignore', 'pipe', 'pipe'] });
  const ended = new Promise((done) => child.once('exit', done));
  let output = '';
  const found = new Promise((done, fail) => {
    const read = (text) => {
      output += text;
      const match = output.match(pattern);
      if (match) done(match);
    };
    child.stdout.setEncoding('utf8').on('data', read);
    child.stderr.setEncoding('utf8').on('data', read);
    child.once('error', fail);
    child.once('exit', (code) => fail(new Error(`${program} ${options.join(' ')} ended with ${code}:\n${output}`)));
  });
  process.once('exit', () => child.kill('SIGKILL'));
  return { child, ended, found, output: () => output };
}

/** A server on a SQLite file of its own. */
export class Server {
  /** Starts a server on a free port. `settings` are further options of `bursar serve`, `env` is added to its environment. */
  static async start(settings = [], env = {}) {
    const server = new Server();
    server.env = env;
    server.folder = mkdtempSync(join(tmpdir(), 'bursar-browser-'));
    process.once('exit', () => rmSync(server.folder, { recursive: true, force: true }));
    server.settings = settings;
    await server.begin(0);
    return server;
  }

  async begin(port) {
    const options = ['serve', '--database', `sqlite://${join(this.folder, 'bursar.db')}`];
    options.push('--listen', `127.0.0.1:${port}`, '--log-level', 'warn', ...this.settings);
    const env = { BURSAR_OPERATOR_TOKEN: OPERATOR, ...this.env };
    this.process = run(PROGRAM, options, this.folder, env, /listening on (http:\/\/\S+)/);
    this.url = (await this.process.found)[1];
    this.port = Number(new URL(this.url).port);
  }

  /** Ends the server without a chance to say goodbye. */
  async kill() {
    this.process.child.kill('SIGKILL');
    await this.process.ended;
  }

  /** Starts a killed server again on the same port and file. */
  async again() {
    await this.begin(this.port);
  }

  async stop() {
    await this.kill();
    rmSync(this.folder, { recursive: true, force: true });
  }

  /** Returns the HTTP API for a token. */
  api(token = OPERATOR, tenant = undefined) {
    return new Api(this, token, tenant);
  }

  /** Creates an API key and returns its token. */
  async key(name, role, tenant = undefined) {
    return (await this.api(OPERATOR, tenant).post('/v1/keys', { name, role })).token;
  }
}

/** Starts `bursar dev` without its fleet. Returns its address and its login link. */
export async function startDev() {
  const folder = mkdtempSync(join(tmpdir(), 'bursar-browser-'));
  const options = ['dev', '--quiet', '--data', join(folder, 'data'), '--listen', '127.0.0.1:0'];
  const dev = run(PROGRAM, options, folder, {}, /(http:\/\/\S+\/login\?code=\S+)/);
  const link = (await dev.found)[1];
  const stop = async () => {
    dev.child.kill('SIGKILL');
    await dev.ended;
    rmSync(folder, { recursive: true, force: true });
  };
  return { link, url: new URL(link).origin, stop };
}

/** Returns whether the program knows a command that a page suggests; it prints the help of the command and does nothing else. */
export async function knows(command) {
  const script = `bursar() { "$PROGRAM" "$@" --help; }; ${command}`;
  const child = spawn('sh', ['-c', script], { env: environment({ PROGRAM }), stdio: 'ignore' });
  return new Promise((done) => child.once('exit', (code) => done(code === 0)));
}

/** The HTTP API for one token. */
export class Api {
  constructor(server, token, tenant) {
    Object.assign(this, { server, token, tenant });
  }

  async send(method, path, body) {
    const headers = { authorization: `Bearer ${this.token}`, connection: 'close' };
    if (this.tenant) headers['bursar-tenant'] = this.tenant;
    if (body !== undefined) headers['content-type'] = 'application/json';
    return fetch(this.server.url + path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) });
  }

  async ask(method, path, body) {
    const answer = await this.send(method, path, body);
    const text = await answer.text();
    if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${text}`);
    return text ? JSON.parse(text) : undefined;
  }

  get(path) {
    return this.ask('GET', path);
  }

  post(path, body = {}) {
    return this.ask('POST', path, body);
  }

  put(path, body) {
    return this.ask('PUT', path, body);
  }

  delete(path) {
    return this.ask('DELETE', path);
  }

  budget(scope, body) {
    return this.put(`/v1/budgets/${encodeURIComponent(scope)}`, body);
  }

  /** Spends units at once. */
  spend(scope, amount) {
    return this.post('/v1/commands', { charges: [{ scope, amount }], settle: 'now' });
  }

  /** Enqueues a job and returns its id. */
  async enqueue(queue, kind, more = {}) {
    return (await this.post('/v1/jobs', { queue, kind, ...more })).id;
  }

  /** Enqueues a job that a hold pays for and returns its id. */
  async order(scope, amount, queue, kind, more = {}) {
    const order = { charges: [{ scope, amount }], jobs: [{ queue, kind, ...more }], settle: 'job' };
    return (await this.post('/v1/commands', order)).jobs[0].id;
  }

  /** Uploads a blob and returns its id. */
  async upload(filename, type, bytes, { namespace = 'media', metadata = undefined } = {}) {
    const headers = { authorization: `Bearer ${this.token}`, connection: 'close', 'content-type': type };
    if (this.tenant) headers['bursar-tenant'] = this.tenant;
    const query = new URLSearchParams({ namespace, filename, ...(metadata && { metadata: JSON.stringify(metadata) }) });
    const answer = await fetch(`${this.server.url}/v1/blobs?${query}`, { method: 'POST', headers, body: bytes });
    if (!answer.ok) throw new Error(`uploading ${filename}: ${answer.status} ${await answer.text()}`);
    return (await answer.json()).id;
  }

  /** Leases jobs of a kind. */
  async lease(queue, kind, { worker = 'gpu-1', capacity = 1 } = {}) {
    const body = { queues: [queue], kinds: [kind], worker, capacity, lease_ms: 600_000, wait_ms: 10_000 };
    const { jobs } = await this.post('/v1/jobs/lease', body);
    if (jobs.length !== capacity) throw new Error(`leased ${jobs.length} of ${capacity} jobs of ${kind}`);
    return jobs;
  }

  complete(job, more = {}) {
    return this.post(`/v1/jobs/${job.id}/complete`, { fence: job.lease.fence, ...more });
  }

  fail(job, kind, message, more = {}) {
    return this.post(`/v1/jobs/${job.id}/fail`, { fence: job.lease.fence, error: { kind, message }, ...more });
  }

  job(id) {
    return this.get(`/v1/jobs/${id}`);
  }

  /** Returns the newest events of a kind, newest first. */
  async journal(kind) {
    const events = [];
    for (let after = 0; ; ) {
      const page = await this.get(`/v1/journal?kind=${kind}&limit=1000&after=${after}`);
      events.push(...page.items);
      if (!page.next) return events.reverse();
      after = page.next;
    }
  }
}

/** Chromium, as Debian packages it. */
export async function launch() {
  const args = process.getuid?.() === 0 ? ['--no-sandbox'] : [];
  return chromium.launch({ executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', args });
}

/** A browser profile with one page that collects everything that goes wrong. */
export class Visitor {
  static async arrive(browser, server, { width = 1440, scheme = 'light', ...options } = {}) {
    const visitor = new Visitor();
    const viewport = { width, height: width < 600 ? 844 : 900 };
    visitor.context = await browser.newContext({ viewport, colorScheme: scheme, baseURL: server.url, ...options });
    visitor.context.setDefaultTimeout(PATIENCE);
    visitor.server = server;
    visitor.follows = false;
    await visitor.holdEvents();
    visitor.faults = [];
    visitor.requests = [];
    if (process.env.DASHBOARD_ASSETS) await visitor.useAssets(process.env.DASHBOARD_ASSETS);
    visitor.page = await visitor.context.newPage();
    visitor.watch(visitor.page);
    return visitor;
  }

  /** Arrives with a session, as if signed in before. */
  static async signedIn(browser, server, token = OPERATOR, options = {}) {
    const visitor = await Visitor.arrive(browser, server, options);
    const value = encodeURIComponent(token);
    await visitor.context.addCookies([{ name: 'bursar_session', value, url: server.url, httpOnly: true, sameSite: 'Strict' }]);
    return visitor;
  }

  /** Leaves the event streams of pages without an answer unless the visitor follows events. */
  async holdEvents() {
    await this.context.route((url) => url.pathname === '/events', (route) => (this.follows ? route.continue() : undefined));
  }

  /** Serves style sheet and script from a folder, so that a change of them needs no build. */
  async useAssets(folder) {
    await this.context.route(/\/assets\/dashboard\.\w+\.(css|js)$/, (route) => {
      const end = route.request().url().split('.').pop();
      return route.fulfill({ path: join(folder, `dashboard.${end}`), contentType: end === 'js' ? 'text/javascript' : 'text/css' });
    });
  }

  watch(page) {
    const fault = (text) => this.faults.push(text);
    page.on('console', (message) => {
      if (['error', 'warning'].includes(message.type())) fault(`console ${message.type()}: ${message.text()}`);
    });
    page.on('pageerror', (error) => fault(`script error: ${error.message}`));
    page.on('request', (request) => {
      this.requests.push(request);
      if (!request.url().startsWith(`${this.server.url}/`)) fault(`request to another host: ${request.url()}`);
    });
    page.on('requestfailed', (request) => {
      // Leaving a page ends its requests, such as its event stream.
      if (request.failure()?.errorText !== 'net::ERR_ABORTED') fault(`${request.url()}: ${request.failure()?.errorText}`);
    });
    page.on('response', (response) => {
      if (response.status() >= 400) fault(`${response.request().method()} ${response.url()}: ${response.status()}`);
    });
  }

  async signIn(token) {
    await this.page.goto('/login');
    await this.page.fill('#token', token);
    await Promise.all([this.page.waitForURL(`${this.server.url}/`), this.page.click('button:has-text("Sign in")')]);
  }

  /**
   * Opens a page that stays as it was loaded, and returns its answer. It gets no events: a refresh between the press and the
   * release of a mouse button would replace the element, and the click would be lost.
   */
  open(path) {
    this.follows = false;
    return this.page.goto(path);
  }

  /** Opens a page that follows events, if it is of this kind, and returns its answer. */
  async openFollowing(path) {
    this.follows = true;
    const answer = await this.page.goto(path);
    if (await this.page.locator('body[data-events]').count()) await this.page.waitForSelector('#live.is-on');
    return answer;
  }

  /** Opens a page that must follow events, and waits until it does. */
  async openLive(path) {
    this.follows = true;
    const answer = await this.page.goto(path);
    await this.page.waitForSelector('#live.is-on');
    return answer;
  }

  /** Clicks a part of a page that follows events until the click took effect: a refresh may have replaced the part meanwhile. */
  async clickUntil(target, effect) {
    for (const end = Date.now() + PATIENCE; !(await effect()); ) {
      if (Date.now() > end) throw new Error(`clicks on ${target} had no effect`);
      await target.click();
    }
  }

  /** Opens a form behind a button of the page, fills its fields and sends it. */
  async act(label, fields = {}, within = 'main') {
    const menu = this.page.locator(`${within} details.menu`, { has: this.page.locator('summary', { hasText: new RegExp(`^${label}$`) }) });
    await menu.first().locator('summary').click();
    const form = menu.first().locator('form');
    for (const [name, value] of Object.entries(fields)) {
      const field = form.locator(`[name="${name}"]`);
      if (name === 'limits') await this.fillLimits(form, value);
      else if ((await field.first().getAttribute('type')) === 'radio') await form.locator(`[name="${name}"][value="${value}"]`).check();
      else if ((await field.evaluate((element) => element.tagName)) === 'SELECT') await field.selectOption(value);
      else await field.fill(value);
    }
    await this.submit(form.locator('.form-acts button'));
  }

  /** Replaces the rows of limits of a form: an amount and a window each. */
  async fillLimits(form, limits) {
    const rows = form.locator('[data-row]');
    while ((await rows.count()) > limits.length) await rows.first().getByRole('button', { name: 'Remove this limit' }).click();
    while ((await rows.count()) < limits.length) await form.getByRole('button', { name: 'Add a limit' }).click();
    for (const [place, [amount, window]] of limits.entries()) {
      await rows.nth(place).locator('[name=amount]').fill(amount);
      await rows.nth(place).locator('[name=window]').fill(window);
    }
  }

  /** Clicks a button that sends a form and waits for the page that answers. */
  async submit(button) {
    await Promise.all([this.page.waitForEvent('framenavigated'), button.click()]);
    await this.page.waitForLoadState('load');
  }

  /** Returns the message of the last act. */
  flash() {
    return this.page.locator('.flash[role]').first().innerText();
  }

  /** Waits until a part of the page has a text. */
  async sees(selector, text) {
    const pattern = text instanceof RegExp ? text : String(text);
    await this.page.locator(selector).filter({ hasText: pattern }).first().waitFor({ state: 'visible' });
  }

  /** Returns the faults since the last call. */
  taken() {
    return this.faults.splice(0);
  }

  async leave() {
    await this.context.close();
  }
}
