/** A local HTTP server whose answers a test writes down. */

import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

export interface Seen {
  method: string;
  path: string;
  headers: IncomingMessage['headers'];
  body: string;
  bytes: Buffer;
}

/** Answers one request. */
export type Answer = (response: ServerResponse, request: Seen) => void;

/** A server that gives each request the next answer of a list; the last one is repeated. */
export class Scripted {
  readonly seen: Seen[] = [];
  url = '';
  private readonly server = createServer((request, response) => void this.answer(request, response));

  constructor(private readonly answers: Answer[]) {}

  static async start(...answers: Answer[]): Promise<Scripted> {
    const scripted = new Scripted(answers);
    await new Promise<void>((done) => scripted.server.listen(0, '127.0.0.1', done));
    scripted.url = `http://127.0.0.1:${(scripted.server.address() as AddressInfo).port}`;
    return scripted;
  }

  private async answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const parts: Buffer[] = [];
    try {
      for await (const part of request) parts.push(part);
    } catch {
      return;
    }
    const bytes = Buffer.concat(parts);
    const { method = '', url = '', headers } = request;
    const seen = { method, path: url, headers, bytes, body: bytes.toString() };
    this.seen.push(seen);
    const answer = this.answers[Math.min(this.seen.length, this.answers.length) - 1];
    answer?.(response, seen);
  }

  async stop(): Promise<void> {
    this.server.closeAllConnections();
    await new Promise((done) => this.server.close(done));
  }
}

export function json(status: number, body: unknown, headers: Record<string, string> = {}): Answer {
  return (response) => {
    response.writeHead(status, { 'content-type': 'application/json', ...headers });
    response.end(JSON.stringify(body));
  };
}

export function problem(type: string, status: number, more: object = {}, headers: Record<string, string> = {}): Answer {
  return json(status, { type: `/problems/${type}`, title: type, status, detail: `detail of ${type}`, ...more }, headers);
}

/** Closes the connection without an answer. */
export const cut: Answer = (response) => response.destroy();
