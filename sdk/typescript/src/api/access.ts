/** `/v1/grants`, `/v1/keys`, `/v1/workers` and `/v1/meter`. */

import { type CallOptions, segment } from '../call.js';
import type {
  CredentialAnswer,
  GrantAnswer,
  IssuedAnswer,
  KeyBody,
  MintBody,
  MintedAnswer,
  QuotaAnswer,
  QuotaCheckAnswer,
  QuotaCheckBody,
  QuotaLimitBody,
  RotateBody,
  WorkerBody,
} from '../generated/api.js';
import type { List } from '../page.js';
import { type ListOptions, type PastOptions, type ReasonOptions, Resource } from './resource.js';

/** The calls for grants. A command redeems one: `commands.submit({ redeem: […] })`. */
export class Grants extends Resource {
  /** Creates a grant; the answer has its token, which is not shown again. */
  mint(grant: MintBody, options?: CallOptions): Promise<MintedAnswer> {
    return this.postJson('/v1/grants', grant, options);
  }

  /** Returns a grant, without its token. */
  find(id: string, options?: PastOptions): Promise<GrantAnswer> {
    return this.getOne(`/v1/grants/${segment(id)}`, options);
  }

  /** Lists grants, without their tokens. */
  all(query: ListOptions & { order?: 'oldest' | 'newest' } = {}, options?: CallOptions): List<GrantAnswer> {
    return this.list('/v1/grants', query, options);
  }

  /** Revokes a grant. */
  revoke(id: string, options?: ReasonOptions): Promise<void> {
    return this.remove(`/v1/grants/${segment(id)}`, options);
  }

  /** Erases the payload of a grant that can no longer be redeemed. */
  erase(id: string, options?: ReasonOptions): Promise<void> {
    return this.act(`/v1/grants/${segment(id)}/erase`, options);
  }
}

/** The calls for credentials of one sort: API keys or workers. */
export class Credentials<B> extends Resource {
  constructor(
    settings: ConstructorParameters<typeof Resource>[0],
    private readonly path: '/v1/keys' | '/v1/workers',
  ) {
    super(settings);
  }

  /** Creates a credential; the answer has its token, which is not shown again. */
  create(credential: B, options?: CallOptions): Promise<IssuedAnswer> {
    return this.postJson(this.path, credential, options);
  }

  /** Returns a credential, without its token. */
  find(id: string, options?: CallOptions): Promise<CredentialAnswer> {
    return this.getJson(`${this.path}/${segment(id)}`, undefined, options);
  }

  /** Lists credentials, without their tokens. */
  all(query: ListOptions = {}, options?: CallOptions): List<CredentialAnswer> {
    return this.list(this.path, query, options);
  }

  /** Replaces a token; the old one stays valid for a while. */
  rotate(id: string, change: RotateBody = {}, options?: CallOptions): Promise<IssuedAnswer> {
    return this.postJson(`${this.path}/${segment(id)}/rotate`, change, options);
  }

  /** Revokes a token from the next request on. */
  revoke(id: string, options?: CallOptions): Promise<void> {
    return this.remove(`${this.path}/${segment(id)}`, options);
  }
}

/** The calls for API keys. */
export type Keys = Credentials<KeyBody>;
/** The calls for workers' tokens. */
export type Workers = Credentials<WorkerBody>;

/** The calls for the quotas of an API's callers. */
export class Meter extends Resource {
  /** Charges the quota of a caller if it admits the cost. If it does not, nothing is charged, and a `QuotaExceededError` says in
   * `retryAfterMs` when there may be room. Retries of the client charge nothing more. */
  check(check: QuotaCheckBody, options?: CallOptions): Promise<QuotaCheckAnswer> {
    return this.postJson('/v1/meter/check', check, options);
  }

  /** Returns the quota of a caller. */
  quota(agentId?: string, options?: CallOptions): Promise<QuotaAnswer> {
    return this.getJson('/v1/meter/quota', { agent_id: agentId }, options);
  }

  /** Sets the quota of a caller. */
  setLimit(limit: QuotaLimitBody, options?: CallOptions): Promise<QuotaAnswer> {
    return this.postJson('/v1/meter/quota/limit', limit, options);
  }
}
