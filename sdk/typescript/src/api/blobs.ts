/** `/v1/blobs` and `/v1/namespaces`. Bytes are streamed in both directions. */

import { type CallOptions, call, open, segment } from '../call.js';
import { BursarError } from '../errors.js';
import type { List } from '../page.js';
import { type ListOptions, Resource } from './resource.js';

/** How long an upload may take. */
const UPLOAD_MS_MAX = 15 * 60_000;

/** A blob: bytes that the server stores. */
export interface StoredBlob {
  id: string;
  namespace: string;
  state: 'pending' | 'live' | 'deleted' | 'doomed';
  filename: string | null;
  content_type: string;
  size: number | null;
  /** The digest of the bytes, in hexadecimal. */
  sha256: string | null;
  metadata?: unknown;
  backend: 'local' | 's3';
  created_at: string;
  created_by: { kind: string; id: string };
  deleted_at: string | null;
  /** The number of jobs that refer to it. */
  jobs: number;
  /** The names under which the application refers to it. */
  references: string[];
}

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

/** A blob to upload directly to its storage. */
export interface PresignBody {
  namespace: string;
  filename?: string;
  content_type: string;
  metadata?: unknown;
  size: number;
  sha256: string;
}

/** One request of a direct upload. */
export interface UploadPart {
  number: number;
  offset: number;
  size: number;
  url: string;
  headers: Record<string, string>;
}

/** How to upload a blob directly; `upload` is `null` if the bytes are stored already. */
export interface PresignAnswer {
  blob: StoredBlob;
  upload: null | { method: 'PUT'; url: string; headers: Record<string, string>; expires_at: string; parts: UploadPart[] | null };
}

/** The settings of a namespace of blobs. */
export interface Namespace {
  name?: string;
  bytes_max: number | null;
  /** The scope that pays for stored bytes. */
  charge: string | null;
  grace_ms: number;
  unreferenced_ms: number | null;
}

/** The calls for blobs. */
export class Blobs extends Resource {
  /** Stores bytes. Bytes that the namespace has already are not stored again: the answer is the existing blob. */
  put(body: BlobBody, options: PutOptions = {}): Promise<StoredBlob> {
    const { namespace, filename, contentType, metadata, sha256, ...rest } = options;
    const raw = bytesOf(body);
    const type = contentType ?? (raw instanceof Blob && raw.type ? raw.type : 'application/octet-stream');
    const headers: Record<string, string> = { 'content-type': type };
    if (sha256 !== undefined) headers['repr-digest'] = `sha-256=:${base64OfHex(sha256)}:`;
    const query = { namespace, filename, metadata: metadata === undefined ? undefined : JSON.stringify(metadata) };
    // The same bytes find the same blob, so that an upload needs no key. A stream cannot be sent again.
    const attempts = raw instanceof ReadableStream ? 1 : rest.attempts;
    const request = { method: 'POST', path: '/v1/blobs', query, raw: { body: raw, headers }, idempotent: true, waitsMs: UPLOAD_MS_MAX } as const;
    return call<StoredBlob>(this.settings, request, { ...rest, attempts });
  }

  /** Reads the bytes of a blob, or the bytes from `start` to `end`, inclusive. The answer is there when its first bytes are. */
  async get(id: string, options: CallOptions & { range?: { start: number; end?: number } } = {}): Promise<BlobContent> {
    const { range, ...rest } = options;
    const headers: Record<string, string> = range ? { range: `bytes=${range.start}-${range.end ?? ''}` } : {};
    return new BlobContent(await open(this.settings, { method: 'GET', path: at(id), headers }, rest));
  }

  /** Returns what is known of a blob, without its bytes. */
  meta(id: string, options?: CallOptions): Promise<StoredBlob> {
    return this.getJson(`${at(id)}/meta`, undefined, options);
  }

  /** Lists blobs. */
  all(query: ListOptions & { namespace?: string } = {}, options?: CallOptions): List<StoredBlob> {
    return this.list('/v1/blobs', query, options);
  }

  /** Deletes a blob. It can be restored for a while. */
  delete(id: string, options?: CallOptions): Promise<void> {
    return this.remove(at(id), options);
  }

  /** Restores a deleted blob. */
  restore(id: string, options?: CallOptions): Promise<StoredBlob> {
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
  link(id: string, expiresInMs?: number, options?: CallOptions): Promise<{ url: string; expires_at: string }> {
    return this.postJson(`${at(id)}/link`, expiresInMs === undefined ? {} : { expires_in_ms: expiresInMs }, options);
  }

  /** Revokes all links of a blob. */
  revokeLinks(id: string, options?: CallOptions): Promise<void> {
    return this.remove(`${at(id)}/links`, options);
  }

  /** Begins a direct upload to the storage. */
  presign(blob: PresignBody, options?: CallOptions): Promise<PresignAnswer> {
    return this.postJson('/v1/blobs/presign', blob, options);
  }

  /** Ends a direct upload. */
  commit(id: string, parts?: { number: number; etag: string }[], options?: CallOptions): Promise<StoredBlob> {
    return this.postJson(`${at(id)}/commit`, parts === undefined ? {} : { parts }, options);
  }

  /** Collects blobs to which nothing refers. */
  gc(dryRun: boolean, options?: CallOptions): Promise<unknown> {
    return this.postJson('/v1/blobs/gc', { dry_run: dryRun }, options);
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
  all(query: ListOptions = {}, options?: CallOptions): List<Namespace> {
    return this.list('/v1/namespaces', query, options);
  }

  find(name: string, options?: CallOptions): Promise<Namespace> {
    return this.getJson(`/v1/namespaces/${segment(name)}`, undefined, options);
  }

  define(name: string, namespace: Partial<Namespace>, options?: CallOptions): Promise<Namespace> {
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
