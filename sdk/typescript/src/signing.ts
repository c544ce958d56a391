/** Signed requests: HTTP message signatures (RFC 9421) with Ed25519 of WebCrypto. They work with Bursar's server and with every service that
 * Bursar meters. */

import { ArgumentError } from './errors.js';

/** What is signed of a request. */
export interface SignedParts {
  method: string;
  /** The absolute URL. */
  url: string | URL;
  /** The body as it is sent. */
  body?: Uint8Array | string;
  /** When the signature is made, in seconds since 1970; default: now. */
  created?: number;
  /** 16 to 128 characters that the key never used before; default: random. */
  nonce?: string;
}

/** The ASN.1 structure before the 32 bytes of an Ed25519 private key in PKCS #8 (RFC 8410). */
const PKCS8_PREFIX = [0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20];
const COMPONENTS = ['@method', '@authority', '@path', '@query', 'x-agent-id'];

/** Signs the requests of an agent. */
export class Signer {
  private constructor(
    private readonly key: CryptoKey,
    /** The public key in hexadecimal. */
    readonly publicKey: string,
    /** The name of the agent: by default its public key. */
    readonly agent: string,
  ) {}

  /** Creates a signer with a private key: 32 bytes, or 64 hexadecimal digits. `agent` is the name under which the service has registered the
   * public key; default: the public key itself. */
  static async fromSeed(seed: Uint8Array | string, options: { agent?: string } = {}): Promise<Signer> {
    const bytes = typeof seed === 'string' ? fromHex(seed) : seed;
    if (bytes.length !== 32) throw new ArgumentError('seed: must be 32 bytes, or 64 hexadecimal digits');
    const { agent } = options;
    if (agent !== undefined && !/^[\x21-\x7e](?:[\x20-\x7e]{0,247}[\x21-\x7e])?$/.test(agent)) {
      throw new ArgumentError('agent: must be 1 to 249 printable ASCII characters without a space at either end');
    }
    const pkcs8 = new Uint8Array([...PKCS8_PREFIX, ...bytes]);
    const readable = await crypto.subtle.importKey('pkcs8', pkcs8, { name: 'Ed25519' }, true, ['sign']);
    const { x } = await crypto.subtle.exportKey('jwk', readable);
    if (x === undefined) throw new ArgumentError('seed: this runtime does not derive public keys of Ed25519');
    const publicKey = toHex(fromBase64(x.replaceAll('-', '+').replaceAll('_', '/')));
    const key = await crypto.subtle.importKey('pkcs8', pkcs8, { name: 'Ed25519' }, false, ['sign']);
    return new Signer(key, publicKey, agent ?? publicKey);
  }

  /** Returns the headers that sign a request. Sign each attempt anew: a signature is accepted once. */
  async sign(parts: SignedParts): Promise<Record<string, string>> {
    const url = new URL(parts.url);
    const body = typeof parts.body === 'string' ? new TextEncoder().encode(parts.body) : parts.body;
    const nonce = parts.nonce ?? crypto.randomUUID().replaceAll('-', '');
    if (!/^[\x21\x23-\x5b\x5d-\x7e]{16,128}$/.test(nonce)) throw new ArgumentError('nonce: must be 16 to 128 visible ASCII characters');
    const created = parts.created ?? Math.floor(Date.now() / 1_000);
    const values = [parts.method, url.host, url.pathname, url.search || '?', this.agent];
    const components = [...COMPONENTS];
    const headers: Record<string, string> = { 'x-agent-id': this.agent };
    if (body !== undefined && body.length > 0) {
      const digest = new Uint8Array(await crypto.subtle.digest('SHA-256', body as Uint8Array<ArrayBuffer>));
      headers['content-digest'] = `sha-256=:${toBase64(digest)}:`;
      components.push('content-digest');
      values.push(headers['content-digest']);
    }
    const names = components.map((name) => `"${name}"`);
    const input = `(${names.join(' ')});created=${created};nonce="${nonce}";keyid="${this.publicKey}";alg="ed25519"`;
    const lines = names.map((name, place) => `${name}: ${values[place]}`);
    const base = [...lines, `"@signature-params": ${input}`].join('\n');
    const signature = new Uint8Array(await crypto.subtle.sign({ name: 'Ed25519' }, this.key, new TextEncoder().encode(base)));
    headers['signature-input'] = `agent=${input}`;
    headers.signature = `agent=:${toBase64(signature)}:`;
    return headers;
  }
}

/** Returns a `fetch` that signs every request. The body is read into memory first, because its digest is signed. A redirect is not followed,
 * because the signature is for one URL. */
export function signedFetch(signer: Signer, inner: typeof fetch = (input, init) => globalThis.fetch(input, init)): typeof fetch {
  return async (input, init) => {
    const request = new Request(input, init);
    const hasBody = request.method !== 'GET' && request.method !== 'HEAD';
    const body = hasBody ? new Uint8Array(await request.arrayBuffer()) : new Uint8Array();
    const headers = new Headers(request.headers);
    const signed = await signer.sign({ method: request.method, url: request.url, body });
    for (const [name, value] of Object.entries(signed)) headers.set(name, value);
    const own: RequestInit = { method: request.method, headers, redirect: 'manual', signal: request.signal };
    if (body.length > 0) own.body = body;
    return inner(request.url, own);
  };
}

function fromHex(text: string): Uint8Array {
  if (!/^[0-9a-f]{64}$/i.test(text)) return new Uint8Array();
  return Uint8Array.from(text.match(/../g) ?? [], (pair) => Number.parseInt(pair, 16));
}

function toHex(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
}

function fromBase64(text: string): Uint8Array {
  return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
}

function toBase64(bytes: Uint8Array): string {
  return btoa(String.fromCharCode(...bytes));
}
