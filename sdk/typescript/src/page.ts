/** Lists: a page at a time, or all items one after the other. */

/** One page of a list. */
export interface Page<T, C = string> {
  items: T[];
  /** Where the next page begins; absent on the last page. */
  next?: C | null;
}

/** A list. `await` it for one page, or iterate over it for all items of all pages. */
export class List<T, C extends string | number = string> implements PromiseLike<Page<T, C>>, AsyncIterable<T> {
  /** @param load Loads the page that begins at a cursor. */
  constructor(private readonly load: (cursor: C | undefined) => Promise<Page<T, C>>) {}

  // biome-ignore lint/suspicious/noThenProperty: a list is awaited for its first page.
  then<A = Page<T, C>, B = never>(
    onDone?: ((page: Page<T, C>) => A | PromiseLike<A>) | null,
    onFailed?: ((error: unknown) => B | PromiseLike<B>) | null,
  ): Promise<A | B> {
    return this.load(undefined).then(onDone, onFailed);
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<T, void, undefined> {
    let cursor: C | undefined;
    do {
      const page = await this.load(cursor);
      yield* page.items;
      cursor = page.next ?? undefined;
    } while (cursor !== undefined);
  }
}
