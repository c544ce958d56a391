// Holds units, and commits what was really spent. It needs BURSAR_SERVER and BURSAR_TOKEN.

import { Bursar, RefusedError } from '@bursar/sdk';

const bursar = new Bursar({ url: process.env.BURSAR_SERVER ?? 'http://127.0.0.1:7440', token: process.env.BURSAR_TOKEN });
await bursar.budgets.define('agent:7', { limits: [{ amount: 1_000_000, window: 'month' }] });
try {
  await using hold = await bursar.hold('agent:7', 50_000); // released if the block fails
  await hold.commit(42_000); // what it really cost
} catch (error) {
  if (error instanceof RefusedError) console.log(error.message, error.violations);
  else throw error;
}
console.log((await bursar.budgets.spent('agent:7')).spent);
