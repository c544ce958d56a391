/** `/v1/blobs` and `/v1/namespaces`. Bytes are streamed in both directions. */

import { type CallOptions, call, open, segment } from '../call.js';
import { BursarError } from '../errors.js';
import type {
  BlobAnswer,
  CommitBlobBody,
  GcAnswer,
  GcBody,
  LinkAnswer,
  LinkInfo,
  NamespaceAnswer,
  NamespaceBody,
  PresignAnswer,
  PresignBody,
} from '../generated/api.js';
import type { List } from '../page.js';
import { type ListOptions, type PastOptions, Resource } from './resource.js';

/** How long an upload may take. */
const UPLOAD_MS_MAX = 15 * 60_000;

/** The bytes of a blob to store. A stream is read once, so that a failed upload of it is not retried. */
export type BlobBody = string | Uint8Array | ArrayBuffer | Blob | ReadableStream<Uint8Array> | AsyncIterable<Uint8Array>;

/** Options of `blobs.put`. */
export interface PutOptions extends CallOptions {
  /** Default: `default`. */
  namespace?: string;
  filename?: string;
  /** Default: the type of a `Blob`, else `application/octet-stream`. */
  contentType?: string;
  metadata?: unknown;
  /** The digest of the bytes, in hexadecimal, which the server verifies. */
  sha256?: string;
}

/** The calls for blobs. */
export class Blobs extends Resource {
  /** Stores bytes. Bytes that the namespace has already are not stored again: the answer is the existing blob. */
  put(body: BlobBody, options: PutOptions = {}): Promise<BlobAnswer> {
    const { namespace, filename, contentType, metadata, sha256, ...rest } = options;
    const raw = bytesOf(body);
    const type = contentType ?? (raw instanceof Blob && raw.type ? raw.type : 'application/octet-stream');
    const headers: Record<string, string> = { 'content-type': type };
    if (sha256 !== undefined) headers['repr-digest'] = `sha-256=:${base64OfHex(sha256)}:`;
    const query = { namespace, filename, metadata: metadata === undefined ? undefined : JSON.stringify(metadata) };
    // The same bytes find the same blob, so that an upload needs no key. A stream cannot be sent again.
    const attempts = raw instanceof ReadableStream ? 1 : rest.attempts;
    const request = { method: 'POST', path: '/v1/blobs', query, raw: { body: raw, headers }, idempotent: true, waitsMs: UPLOAD_MS_MAX } as const;
    return call<BlobAnswer>(this.settings, request, { ...rest, attempts });
  }

  /** Reads the bytes of a blob, or the bytes from `start` to `end`, inclusive. The answer is there when its first bytes are. */
  async get(id: string, options: CallOptions & { range?: { start: number; end?: number } } = {}): Promise<BlobContent> {
    const { range, ...rest } = options;
    const headers: Record<string, string> = range ? { range: `bytes=${range.start}-${range.end ?? ''}` } : {};
    return new BlobContent(await open(this.settings, { method: 'GET', path: at(id), headers }, rest));
  }

  /** Returns what is known of a blob, without its bytes. */
  meta(id: string, options?: PastOptions): Promise<BlobAnswer> {
    return this.getOne(`${at(id)}/meta`, options);
  }

  /** Lists blobs. */
  all(query: ListOptions & { namespace?: string } = {}, options?: CallOptions): List<BlobAnswer> {
    return this.list('/v1/blobs', query, options);
  }

  /** Deletes a blob. It can be restored for a while. */
  delete(id: string, options?: CallOptions): Promise<void> {
    return this.remove(at(id), options);
  }

  /** Restores a deleted blob. */
  restore(id: string, options?: CallOptions): Promise<BlobAnswer> {
    return this.postJson(`${at(id)}/restore`, {}, options);
  }

  /** Refers to a blob under a name, so that it is kept. */
  refer(id: string, name: string, options?: CallOptions): Promise<void> {
    return call(this.settings, { method: 'PUT', path: `${at(id)}/references/${segment(name)}` }, options);
  }

  /** Ends a reference. */
  unrefer(id: string, name: string, options?: CallOptions): Promise<void> {
    return this.remove(`${at(id)}/references/${segment(name)}`, options);
  }

  /** Makes a link by which the bytes can be read without a token. */
  link(id: string, expiresInMs?: number, options?: CallOptions): Promise<LinkAnswer> {
    return this.postJson(`${at(id)}/link`, expiresInMs === undefined ? {} : { expires_in_ms: expiresInMs }, options);
  }

  /** Lists links, without their addresses. */
  links(query: ListOptions = {}, options?: CallOptions): List<LinkInfo> {
    return this.list('/v1/links', query, options);
  }

  /** Revokes a link, by the id of the link. */
  revokeLink(id: string, options?: CallOptions): Promise<void> {
    return this.remove(`/v1/links/${segment(id)}`, options);
  }

  /** Begins an upload that goes to the storage without passing through the server. Equal bytes that the namespace has already need no upload. */
  presign(blob: PresignBody, options?: CallOptions): Promise<PresignAnswer> {
    return call(this.settings, { method: 'POST', path: '/v1/blobs/presign', body: blob, idempotent: true }, options);
  }

  /** Ends such an upload: the blob is live from now on. */
  commit(id: string, upload: CommitBlobBody = {}, options?: CallOptions): Promise<BlobAnswer> {
    return call(this.settings, { method: 'POST', path: `${at(id)}/commit`, body: upload, idempotent: true }, options);
  }

  /** Collects blobs that nothing needs any more. */
  gc(how: GcBody = {}, options?: CallOptions): Promise<GcAnswer> {
    return call(this.settings, { method: 'POST', path: '/v1/blobs/gc', body: how, idempotent: true }, options);
  }
}

/** The bytes of a blob, which can be read once. */
export class BlobContent {
  readonly contentType: string;
  /** The number of bytes of this answer, if it is known. */
  readonly size: number | undefined;
  /** The ETag of the bytes. */
  readonly etag: string | undefined;

  /** @internal */
  constructor(private readonly response: Response) {
    const { headers } = response;
    this.contentType = headers.get('content-type') ?? 'application/octet-stream';
    this.size = headers.has('content-length') ? Number(headers.get('content-length')) : undefined;
    this.etag = headers.get('etag') ?? undefined;
  }

  /** Returns the bytes as a stream. */
  stream(): NonNullable<Response['body']> {
    if (!this.response.body) throw new BursarError('the answer has no body');
    return this.response.body;
  }

  /** Reads all bytes. */
  async bytes(): Promise<Uint8Array> {
    return new Uint8Array(await this.response.arrayBuffer());
  }

  /** Reads all bytes as text. */
  text(): Promise<string> {
    return this.response.text();
  }
}

/** The calls for namespaces of blobs. */
export class Namespaces extends Resource {
  all(query: ListOptions = {}, options?: CallOptions): List<NamespaceAnswer> {
    return this.list('/v1/namespaces', query, options);
  }

  find(name: string, options?: PastOptions): Promise<NamespaceAnswer> {
    return this.getOne(`/v1/namespaces/${segment(name)}`, options);
  }

  define(name: string, namespace: NamespaceBody, options?: CallOptions): Promise<NamespaceAnswer> {
    return this.putJson(`/v1/namespaces/${segment(name)}`, namespace, options);
  }
}

function at(id: string): string {
  return `/v1/blobs/${segment(id)}`;
}

function bytesOf(body: BlobBody): Uint8Array | Blob | ReadableStream<Uint8Array> {
  if (typeof body === 'string') return new TextEncoder().encode(body);
  if (body instanceof ArrayBuffer) return new Uint8Array(body);
  if (body instanceof Uint8Array || body instanceof Blob || body instanceof ReadableStream) return body;
  const iterator = body[Symbol.asyncIterator]();
  return new ReadableStream<Uint8Array>({
    async pull(controller) {
      const { done, value } = await iterator.next();
      if (done) controller.close();
      else controller.enqueue(value);
    },
    async cancel() {
      await iterator.return?.();
    },
  });
}

function base64OfHex(hex: string): string {
  const bytes = hex.match(/../g)?.map((pair) => String.fromCharCode(Number.parseInt(pair, 16))) ?? [];
  return btoa(bytes.join(''));
}
