/** `/v1/budgets`. */

import { type CallOptions, segment } from '../call.js';
import type { BudgetAnswer, BudgetBody, CreditBody, CreditedAnswer, EventAnswer, SpendSeriesAnswer, SpentAnswer } from '../generated/api.js';
import type { List } from '../page.js';
import { type ListOptions, type PastOptions, type ReasonOptions, Resource } from './resource.js';

/** A period: dates, instants, `now`, or how long ago, such as `-7d`. */
export interface Period {
  from?: string;
  to?: string;
}

/** The calls for budgets. */
export class Budgets extends Resource {
  /** Lists budgets by scope. */
  all(query: ListOptions & { prefix?: string } = {}, options?: CallOptions): List<BudgetAnswer> {
    return this.list('/v1/budgets', query, options);
  }

  /** Returns a budget and its balances. */
  find(scope: string, options?: PastOptions): Promise<BudgetAnswer> {
    return this.getOne(at(scope), options);
  }

  /** Creates or replaces a budget. */
  define(scope: string, budget: BudgetBody, options?: CallOptions): Promise<BudgetAnswer> {
    return this.putJson(at(scope), budget, options);
  }

  /** Removes a budget; its spend stays recorded. */
  delete(scope: string, options?: ReasonOptions): Promise<void> {
    return this.remove(at(scope), options);
  }

  /** Credits units back to a scope. */
  credit(scope: string, credit: CreditBody, options?: CallOptions): Promise<CreditedAnswer> {
    return this.postJson(`${at(scope)}/credits`, credit, options);
  }

  /** Freezes a scope: new charges are refused. */
  freeze(scope: string, options?: ReasonOptions): Promise<BudgetAnswer> {
    return this.act(`${at(scope)}/freeze`, options);
  }

  /** Unfreezes a scope. */
  unfreeze(scope: string, options?: ReasonOptions): Promise<BudgetAnswer> {
    return this.act(`${at(scope)}/unfreeze`, options);
  }

  /** Lists the events of a scope, newest first. */
  history(scope: string, query?: ListOptions, options?: CallOptions): List<EventAnswer> {
    return this.list(`${at(scope)}/history`, query, options);
  }

  /** Returns the units posted over time. */
  series(scope: string, query: Period & { steps?: number } = {}, options?: CallOptions): Promise<SpendSeriesAnswer> {
    return this.getJson(`${at(scope)}/series`, { ...query }, options);
  }

  /** Returns the units posted in a period. */
  spent(scope: string, query: Period = {}, options?: CallOptions): Promise<SpentAnswer> {
    return this.getJson(`${at(scope)}/spent`, { ...query }, options);
  }
}

function at(scope: string): string {
  return `/v1/budgets/${segment(scope)}`;
}
