// An Express API whose callers have quotas on a Bursar server. It needs BURSAR_SERVER, and in BURSAR_TOKEN a token that may `meter.check`.

import { Bursar, InvalidError, QuotaExceededError } from '@bursar/sdk';
import express, { type NextFunction, type Request, type Response } from 'express';

const { BURSAR_SERVER: url = 'http://127.0.0.1:7440', BURSAR_TOKEN: token, PORT = '3000' } = process.env;
const bursar = new Bursar({ url, token });

/** Charges each request to its caller before it is served. */
async function metered(request: Request, response: Response, next: NextFunction) {
  // Take the name that your authentication has found: a header that anyone can set lets callers spend the quotas of others.
  const agent_id = request.get('x-agent-id');
  if (agent_id === undefined) return response.status(401).json({ error: 'X-Agent-Id is missing' });
  try {
    const cost = request.method === 'POST' ? 10 : 1;
    const quota = await bursar.meter.check({ agent_id, cost }, { timeoutMs: 2_000 });
    response.set({ 'x-quota-limit': String(quota.limit), 'x-quota-remaining': String(quota.remaining) });
  } catch (error) {
    if (error instanceof QuotaExceededError) {
      if (error.retryAfterMs !== undefined) response.set('retry-after', String(Math.ceil(error.retryAfterMs / 1_000)));
      return response.status(429).json({ error: error.detail, violations: error.violations });
    }
    if (error instanceof InvalidError) return response.status(400).json({ error: error.detail });
    // The quota could not be checked. This API stays available; call `next(error)` instead to refuse the request.
    console.error('quota check failed, serving the request:', error);
  }
  next();
}

const app = express();
app.get('/livez', (_, response) => void response.send('ok'));
app.use(metered);
app.route('/claims').get((_, response) => void response.json([])).post((_, response) => void response.json('asserted'));

const server = app.listen(Number(PORT), '127.0.0.1', () => console.log('listening on', server.address()));
process.once('SIGTERM', () => server.close());
