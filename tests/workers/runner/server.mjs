// Bursar servers on throwaway databases, and a throwaway PostgreSQL for them.

import { spawn, spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

export const OPERATOR = 'operator-token-of-the-worker-scenarios-0123456789';

/** Returns the environment without settings of Bursar and of worker programs. */
export function environment(more) {
  const own = Object.entries(process.env).filter(([name]) => !/^(BURSAR|WORKER)_/.test(name));
  return { ...Object.fromEntries(own), ...more };
}

/** Returns the URL of a SQLite file that does not exist yet. */
export function freshSqlite() {
  const folder = mkdtempSync(join(tmpdir(), 'bursar-workers-'));
  process.once('exit', () => rmSync(folder, { recursive: true, force: true }));
  return `sqlite://${join(folder, 'bursar.db')}`;
}

/** A server on a database of its own. */
export class Server {
  static async start(database) {
    const server = new Server();
    server.database = database;
    process.once('exit', () => server.child?.kill('SIGKILL'));
    await server.begin(0);
    return server;
  }

  async begin(port) {
    const options = ['serve', '--database', this.database, '--listen', `127.0.0.1:${port}`];
    options.push('--log-level', 'warn', '--engine-rescue-ms', '100');
    const env = environment({ BURSAR_OPERATOR_TOKEN: OPERATOR });
    const child = spawn(process.env.BURSAR_BIN, options, { cwd: tmpdir(), env, stdio: ['ignore', 'pipe', 'pipe'] });
    this.child = child;
    this.ended = new Promise((done) => child.once('exit', done));
    this.url = await new Promise((done, fail) => {
      let output = '';
      const read = (text) => {
        output += text;
        const match = /listening on (http:\/\/\S+)/.exec(output);
        if (match) done(match[1]);
      };
      child.stdout.setEncoding('utf8').on('data', read);
      child.stderr.setEncoding('utf8').on('data', read);
      child.once('error', fail);
      child.once('exit', (code) => fail(new Error(`the server ended with ${code}:\n${output}`)));
    });
  }

  async kill() {
    this.child.kill('SIGKILL');
    await this.ended;
  }

  /** Starts a killed server again on the same port and database. */
  async again() {
    const port = Number(new URL(this.url).port);
    // Another process may use the port for a moment while the server is down.
    for (let tries = 1; ; tries += 1) {
      try {
        return await this.begin(port);
      } catch (error) {
        if (tries >= 50) throw error;
        await new Promise((done) => setTimeout(done, 200));
      }
    }
  }

  stop() {
    return this.kill();
  }

  /** Calls a route. A server that is too busy is asked again. */
  async api(method, path, body) {
    const headers = { authorization: `Bearer ${OPERATOR}` };
    if (body !== undefined) headers['content-type'] = 'application/json';
    for (let tries = 1; ; tries += 1) {
      const answer = await fetch(this.url + path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) });
      const text = await answer.text();
      if (answer.ok) return text ? JSON.parse(text) : undefined;
      if (![429, 503].includes(answer.status) || tries >= 100) throw new Error(`${method} ${path}: ${answer.status} ${text}`);
      await new Promise((done) => setTimeout(done, 300));
    }
  }
}

/** A throwaway PostgreSQL server, from the programs that Debian installs. It stops when this process ends, however it ends. */
export class Cluster {
  static async start() {
    const cluster = new Cluster();
    cluster.bin = binaries();
    cluster.folder = mkdtempSync(join(tmpdir(), 'bursar-workers-pg-'));
    // PostgreSQL refuses to run as root.
    if (process.getuid() === 0) run('chown', ['postgres', cluster.folder]);
    cluster.cleaner = cleaner(cluster.bin, cluster.folder);
    const init = ['-A', 'trust', '-U', 'postgres', '-E', 'UTF8', '--locale=C', '--no-sync', '-D', join(cluster.folder, 'data')];
    run(...asServer(join(cluster.bin, 'initdb'), init));
    // Another process may take the port before the server binds it.
    for (let tries = 1; ; tries += 1) {
      cluster.port = await freePort();
      if (cluster.begin()) break;
      if (tries >= 5) throw new Error('PostgreSQL did not start');
    }
    return cluster;
  }

  begin() {
    const settings = `-p ${this.port} -h 127.0.0.1 -k ${this.folder} -c max_connections=200 -c fsync=off -c full_page_writes=off`;
    const options = ['-s', '-w', 'start', '-D', join(this.folder, 'data'), '-l', join(this.folder, 'log'), '-o', settings];
    const [program, all] = asServer(join(this.bin, 'pg_ctl'), options);
    return spawnSync(program, all, { cwd: '/', stdio: 'ignore' }).status === 0;
  }

  /** Creates an empty database and returns its URL. */
  freshDatabase() {
    this.databases = (this.databases ?? 0) + 1;
    const url = (name) => `postgres://postgres@127.0.0.1:${this.port}/${name}`;
    const name = `workers_${this.databases}`;
    run(join(this.bin, 'psql'), ['-q', '-X', '-c', `CREATE DATABASE ${name} TEMPLATE template0`, url('postgres')]);
    return url(name);
  }

  async stop() {
    const ended = new Promise((done) => this.cleaner.once('exit', done));
    this.cleaner.stdin.end();
    await ended;
  }
}

/** Starts a shell that stops the server and deletes its folder when its standard input closes. */
function cleaner(bin, folder) {
  const script = 'folder=$1; shift; cat >/dev/null; "$@" -s -w -m immediate stop -D "$folder/data" >/dev/null 2>&1; rm -rf "$folder"';
  const [program, options] = asServer(join(bin, 'pg_ctl'), []);
  const all = ['-c', script, 'cleaner', folder, program, ...options];
  // In a process group of its own, so that Ctrl-C does not end it.
  return spawn('sh', all, { cwd: '/', detached: true, stdio: ['pipe', 'ignore', 'ignore'] });
}

/** Returns a command that runs as a user that PostgreSQL accepts. */
function asServer(program, options) {
  return process.getuid() === 0 ? ['runuser', ['-u', 'postgres', '--', program, ...options]] : [program, options];
}

function run(program, options) {
  const { status, stderr, error } = spawnSync(program, options, { cwd: '/', stdio: ['ignore', 'ignore', 'pipe'], encoding: 'utf8' });
  if (status !== 0) throw new Error(`${program} ${options.join(' ')}: ${error ?? stderr}`);
}

/** Returns the folder of the newest installed version's programs. */
function binaries() {
  const root = '/usr/lib/postgresql';
  const versions = existsSync(root) ? readdirSync(root).filter((version) => existsSync(join(root, version, 'bin/initdb'))) : [];
  const newest = versions.sort((a, b) => Number(b) - Number(a))[0];
  if (!newest) throw new Error('PostgreSQL is not installed: run `make setup`');
  return join(root, newest, 'bin');
}

function freePort() {
  return new Promise((done, fail) => {
    const server = createServer();
    server.once('error', fail);
    server.listen(0, '127.0.0.1', () => {
      const { port } = server.address();
      server.close(() => done(port));
    });
  });
}
