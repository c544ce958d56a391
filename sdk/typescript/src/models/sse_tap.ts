/** Reads the events of a provider's stream while the caller reads it. */

/** Looks at one event; returns `false` to keep it from the caller. */
export type Look = (data: unknown) => boolean;

/** Returns a stream with the bytes of `source`. `look` sees every event, and `ended` is called once, before the caller sees the end. */
export function tapEvents(source: ReadableStream<Uint8Array>, look: Look, ended: () => Promise<void>): ReadableStream<Uint8Array> {
  const reader = source.getReader();
  const decoder = new TextDecoder();
  const encoder = new TextEncoder();
  let rest = '';
  /** Returns the complete events of the text that the caller may see. */
  const filter = (text: string): string => {
    rest += text;
    let passed = '';
    for (let match = /\r?\n\r?\n/.exec(rest); match; match = /\r?\n\r?\n/.exec(rest)) {
      const end = match.index + match[0].length;
      const event = rest.slice(0, end);
      rest = rest.slice(end);
      if (look(dataOf(event))) passed += event;
    }
    return passed;
  };
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        try {
          for (;;) {
            const { done, value } = await reader.read();
            if (done) {
              await ended();
              if (rest) controller.enqueue(encoder.encode(rest));
              controller.close();
              return;
            }
            const passed = filter(decoder.decode(value, { stream: true }));
            if (passed) {
              controller.enqueue(encoder.encode(passed));
              return;
            }
          }
        } catch (error) {
          await ended();
          controller.error(error);
        }
      },
      async cancel(reason) {
        await reader.cancel(reason).catch(() => undefined);
        await ended();
      },
    },
    { highWaterMark: 0 },
  );
}

function dataOf(event: string): unknown {
  const lines = event.split(/\r?\n/).filter((line) => line.startsWith('data:'));
  try {
    return JSON.parse(lines.map((line) => line.slice(5)).join('\n'));
  } catch {
    // `[DONE]`, a comment, or an event that the package of the provider will report.
    return undefined;
  }
}
