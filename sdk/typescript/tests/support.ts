/** A server on a throwaway database, and helpers that wait for a condition. */

import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { Bursar, type BursarOptions } from '../src/index.js';

export const ROOT = resolve(import.meta.dirname, '../../../../..');
export const PROGRAM = resolve(process.env.BURSAR_BIN ?? join(ROOT, 'target/debug/bursar'));
export const OPERATOR = 'operator-token-of-the-sdk-tests-0123456789abcdef';
/** How long a test waits for a condition, in milliseconds. */
export const PATIENCE_MS = 120_000;

/** A server on a SQLite file of its own. */
export class Server {
  url = '';
  private child: ChildProcess | undefined;
  private ended: Promise<unknown> = Promise.resolve();
  private readonly folder = mkdtempSync(join(tmpdir(), 'bursar-sdk-'));

  /** Starts a server; `config` is the text of its configuration file. */
  static async start(config = ''): Promise<Server> {
    const server = new Server();
    writeFileSync(join(server.folder, 'bursar.toml'), config);
    process.once('exit', () => server.clean());
    await server.begin(0);
    return server;
  }

  private async begin(port: number): Promise<void> {
    if (!existsSync(PROGRAM)) throw new Error(`${PROGRAM} does not exist: run \`cargo build\` or set BURSAR_BIN`);
    const options = ['serve', '--database', `sqlite://${join(this.folder, 'bursar.db')}`, '--listen', `127.0.0.1:${port}`, '--config', 'bursar.toml'];
    const own = Object.entries(process.env).filter(([name]) => !name.startsWith('BURSAR_'));
    const env = { ...Object.fromEntries(own), BURSAR_OPERATOR_TOKEN: OPERATOR };
    const child = spawn(PROGRAM, [...options, '--log-level', 'warn'], { cwd: this.folder, env, stdio: ['ignore', 'pipe', 'pipe'] });
    this.child = child;
    this.ended = new Promise((done) => child.once('exit', done));
    this.url = await new Promise<string>((done, fail) => {
      let output = '';
      const read = (text: string) => {
        output += text;
        const match = /listening on (http:\/\/\S+)/.exec(output);
        if (match?.[1]) done(match[1]);
      };
      child.stdout?.setEncoding('utf8').on('data', read);
      child.stderr?.setEncoding('utf8').on('data', read);
      child.once('error', fail);
      child.once('exit', (code) => fail(new Error(`the server ended with ${code}:\n${output}`)));
    });
  }

  /** Kills the server without a chance to finish anything. */
  async kill(): Promise<void> {
    this.child?.kill('SIGKILL');
    await this.ended;
  }

  /** Starts a killed server again on the same port and file. */
  async again(): Promise<void> {
    await this.begin(Number(new URL(this.url).port));
  }

  async stop(): Promise<void> {
    await this.kill();
    this.clean();
  }

  private clean(): void {
    this.child?.kill('SIGKILL');
    rmSync(this.folder, { recursive: true, force: true });
  }

  client(options: Partial<BursarOptions> = {}): Bursar {
    return new Bursar({ url: this.url, token: OPERATOR, ...options });
  }
}

/** Polls until there is a result. */
export async function eventually<T>(poll: () => Promise<T | undefined | false> | T | undefined | false): Promise<T> {
  const deadline = Date.now() + PATIENCE_MS;
  for (;;) {
    const found = await poll();
    if (found !== undefined && found !== false) return found;
    if (Date.now() > deadline) throw new Error(`nothing within ${PATIENCE_MS} ms: ${poll}`);
    await new Promise((done) => setTimeout(done, 10));
  }
}
