/** Reads values of unknown shape. */

import { utf8Length } from './measure.js';

export type Json = Record<string, unknown>;

export function isObject(value: unknown): value is Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Returns a finite number that is not negative. */
export function number(value: unknown): number | undefined {
  return typeof value === 'number' && Number.isFinite(value) && value >= 0 ? value : undefined;
}

/** Returns the objects of a list. */
export function list(value: unknown): Json[] {
  return Array.isArray(value) ? value.filter(isObject) : [];
}

/** Returns the number of bytes of all texts in a value. */
export function stringBytes(value: unknown): number {
  if (typeof value === 'string') return utf8Length(value);
  if (Array.isArray(value)) return value.reduce((sum: number, part) => sum + stringBytes(part), 0);
  return isObject(value) ? stringBytes(Object.values(value)) : 0;
}

/** Parses JSON; returns `undefined` if the text is none. */
export function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
