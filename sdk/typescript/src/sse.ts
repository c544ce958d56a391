/** A parser for server-sent events. */

/** The maximum size of one event, in characters. An event may contain several payloads of one mebibyte, which grow when they are escaped. */
const EVENT_LENGTH_MAX = 16 << 20;

/** One event of a stream. */
export interface SseFrame {
  id: string | undefined;
  event: string;
  data: string;
}

/** Splits a stream of text into events. */
export class SseParser {
  private rest = '';
  private frame = emptyFrame();
  private length = 0;

  /** Adds text and returns the events that it completes. */
  feed(text: string): SseFrame[] {
    const frames: SseFrame[] = [];
    const lines = (this.rest + text).split('\n');
    this.rest = lines.pop() ?? '';
    for (const line of lines) {
      this.length += line.length;
      const frame = this.endLine(line.endsWith('\r') ? line.slice(0, -1) : line);
      if (frame) frames.push(frame);
    }
    if (this.length + this.rest.length > EVENT_LENGTH_MAX) {
      throw new Error(`an event has more than ${EVENT_LENGTH_MAX} characters`);
    }
    return frames;
  }

  private endLine(line: string): SseFrame | undefined {
    if (line === '') {
      const { data, ...frame } = this.frame;
      this.frame = emptyFrame();
      this.length = 0;
      return data.length > 0 ? { ...frame, data: data.join('\n') } : undefined;
    }
    const colon = line.indexOf(':');
    const field = colon < 0 ? line : line.slice(0, colon);
    const raw = colon < 0 ? '' : line.slice(colon + 1);
    const value = raw.startsWith(' ') ? raw.slice(1) : raw;
    // A line without a field name is a comment, which keeps the connection alive.
    if (field === 'id') this.frame.id = value;
    else if (field === 'event') this.frame.event = value;
    else if (field === 'data') this.frame.data.push(value);
    return undefined;
  }
}

function emptyFrame(): { id: string | undefined; event: string; data: string[] } {
  return { id: undefined, event: '', data: [] };
}
