/** Reads the lines of a stream, without the whole of it in memory. */

/** Splits chunks of bytes into lines. */
class LineSplitter {
  private readonly decoder = new TextDecoder();
  private rest = '';

  /** Returns the lines that end in a chunk. */
  push(chunk: Uint8Array): string[] {
    const lines = this.decoder.decode(chunk, { stream: true }).split('\n');
    lines[0] = this.rest + lines[0];
    this.rest = lines.pop() ?? '';
    return lines;
  }

  /** Returns what follows the last line break. */
  end(): string {
    return this.rest + this.decoder.decode();
  }
}

/** Yields the lines of a stream. `look` sees each chunk before its lines. */
export async function* linesOf(source: ReadableStream<Uint8Array>, look: (chunk: Uint8Array) => void): AsyncGenerator<string> {
  const splitter = new LineSplitter();
  const reader = source.getReader();
  try {
    for (let { done, value } = await reader.read(); !done && value; { done, value } = await reader.read()) {
      look(value);
      yield* splitter.push(value);
    }
    yield splitter.end();
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}

/** Returns a stream with the bytes of `source`. `look` sees every line. `ended` is called before the caller sees the end, unless the caller stops
 * before the last chunk. */
export function tapLines(source: ReadableStream<Uint8Array>, look: (line: string) => void, ended: () => Promise<void>): ReadableStream<Uint8Array> {
  const splitter = new LineSplitter();
  return source.pipeThrough(
    new TransformStream<Uint8Array, Uint8Array>({
      transform(chunk, controller) {
        for (const line of splitter.push(chunk)) look(line);
        controller.enqueue(chunk);
      },
      async flush() {
        look(splitter.end());
        await ended();
      },
    }),
  );
}
