/** Model calls that cannot overspend: wrappers that hold the most that a call can cost before it is sent, and commit the real cost after it. */

export { type BursarMiddleware, bursarMiddleware } from './ai_sdk.js';
export { anthropicFetch, wrapAnthropic } from './anthropic.js';
export type { BatchHolds } from './batches.js';
export { meterChatModel } from './langchain.js';
export { type Bounds, IMAGE_TOKENS, ITEM_TOKENS, REQUEST_TOKENS, type Tokenizer, UnboundedCallError } from './measure.js';
export type { MeterOptions, Payer, SettledCall } from './meter.js';
export { refusalOf } from './metered_fetch.js';
export { openaiFetch, wrapOpenAI } from './openai.js';
export { costOf, type FilePrice, PRICES, type Price, type Prices, type PriceTable, priceOf, type TokenUsage, UnknownPriceError } from './prices.js';
