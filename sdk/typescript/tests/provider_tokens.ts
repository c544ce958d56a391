/** The tokens of every answer of the local provider. */

export const INPUT = 120;
export const CACHED = 20;
export const OUTPUT = 40;
export const REASONING = 10;
