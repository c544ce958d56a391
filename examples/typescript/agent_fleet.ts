// A fleet of agents under one monthly cap. Each agent calls a model until the budget refuses the next call, which is then not sent.
// It needs BURSAR_SERVER, BURSAR_TOKEN and OPENAI_API_KEY.

import { Bursar, RefusedError } from '@bursar/sdk';
import { wrapOpenAI } from '@bursar/sdk/models';
import OpenAI from 'openai';

const { BURSAR_SERVER: url = 'http://127.0.0.1:7440', BURSAR_TOKEN: token, FLEET_CAP = '25000000' } = process.env;
const bursar = new Bursar({ url, token });

// Amounts are micro-dollars: with six decimals, 25000000 is $25.00.
const unit = { unit: 'usd', unit_decimals: 6, unit_symbol: '$' };
const limits = [{ amount: Number(FLEET_CAP), window: 'month' }];
await bursar.budgets.define('fleet', { limits, ...unit });

async function agent(name: string): Promise<number> {
  const scope = `agent:${name}`;
  // Every unit that the agent spends also counts for its parent, the fleet.
  await bursar.budgets.define(scope, { limits, parent: 'fleet', ...unit });
  const openai = wrapOpenAI(new OpenAI(), { bursar, scope, maxTokens: 500 });
  for (let steps = 0; ; steps += 1) {
    try {
      await openai.chat.completions.create({ model: 'gpt-5-mini', messages: [{ role: 'user', content: `Step ${steps}: what next?` }] });
    } catch (error) {
      if (!(error instanceof RefusedError)) throw error;
      console.log(`${name} stops after ${steps} steps: ${error.message}`);
      return steps;
    }
  }
}

const steps = await Promise.all(['ada', 'ben', 'cleo', 'dan'].map(agent));
const { balances } = await bursar.budgets.find('fleet');
const [month] = balances ?? [];
console.log(`${steps.reduce((sum, count) => sum + count, 0)} steps, ${month?.posted} of ${month?.limit} micro-dollars spent`);
