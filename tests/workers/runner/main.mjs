// Runs every scenario against every worker program on every engine, several at a time.

import { existsSync, readFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { Cluster, freshSqlite, Server } from './server.mjs';
import { Stills } from './stills.mjs';
import { World } from './world.mjs';

const FOLDER = dirname(dirname(fileURLToPath(import.meta.url)));
const ROOT = resolve(FOLDER, '../..');
const ENGINES = ['sqlite', 'postgres'];
/** How many scenarios run at once. Most of them wait for leases to expire. */
const AT_ONCE = 6;

const read = (name) => JSON.parse(readFileSync(join(FOLDER, name), 'utf8'));
const scenarios = read('scenarios.json');
const workers = read('workers.json');

const list = { type: 'string', multiple: true };
const { values } = parseArgs({ options: { worker: list, engine: list, scenario: list, list: { type: 'boolean' } } });
if (values.list) {
  console.log(`workers:   ${Object.keys(workers).join(', ')}\nscenarios: ${scenarios.map(({ name }) => name).join(', ')}`);
  process.exit(0);
}

/** Returns the asked names, or all; fails for an unknown one. */
function chosen(what, asked, all) {
  const unknown = asked?.find((name) => !all.includes(name));
  if (unknown) fail(`there is no ${what} ${unknown}; there are: ${all.join(', ')}`);
  return asked ?? all;
}

function fail(message) {
  console.error(message);
  process.exit(2);
}

/** Returns the command of a worker program, from the root of the repository. */
function commandOf(name) {
  const { command, needs, build } = workers[name];
  const replaced = process.env[`WORKER_COMMAND_${name.toUpperCase()}`];
  if (replaced) return replaced.split(' ').filter(Boolean);
  const target = process.env.CARGO_TARGET_DIR;
  const place = (path) => resolve(ROOT, target && path.startsWith('target/') ? join(target, path.slice('target/'.length)) : path);
  if (!existsSync(place(needs))) fail(`the worker program ${name} needs ${needs}: ${build}`);
  return command.map((part) => (part.includes('/') ? place(part) : part));
}

const names = chosen('scenario', values.scenario, scenarios.map(({ name }) => name));
const engines = chosen('engine', values.engine, ENGINES);
const commands = chosen('worker', values.worker, Object.keys(workers)).map((name) => [name, commandOf(name)]);

// Every server, folder and worker process is cleaned up when this process ends.
process.setMaxListeners(0);
const began = Date.now();
const cluster = engines.includes('postgres') ? await Cluster.start() : undefined;
const database = (engine) => (engine === 'postgres' ? cluster.freshDatabase() : freshSqlite());
const shared = Object.fromEntries(await Promise.all(engines.map(async (engine) => [engine, await Server.start(database(engine))])));

const runs = engines.flatMap((engine) =>
  commands.flatMap(([worker, command]) =>
    scenarios.filter(({ name }) => names.includes(name)).map((scenario) => ({ engine, worker, command, scenario })),
  ),
);
const failures = [];
const waiting = [...runs];

const stills = new Stills();
/** How often a scenario runs if the machine stands still while it does. */
const RUNS_MAX = 5;

async function run(next) {
  const { engine, worker, command, scenario, tries = 1 } = next;
  const title = `${worker}, ${engine}: ${scenario.name}`;
  const from = Date.now();
  const own = scenario.server === 'own' ? await Server.start(database(engine)) : undefined;
  const world = new World(own ?? shared[engine], command, ROOT, scenario);
  try {
    await world.run();
    console.log(`ok      ${title} (${((Date.now() - from) / 1000).toFixed(1)} s)`);
  } catch (error) {
    const still = await stills.longest(from);
    const again = still > 0 && tries < RUNS_MAX;
    if (again) waiting.push({ ...next, tries: tries + 1 });
    else failures.push(title);
    const why = again ? `AGAIN   ${title}: the machine stood still for ${(still / 1000).toFixed(1)} s` : `FAILED  ${title}`;
    console.log(`${why}: ${error.stack ?? error}\n${world.output()}`);
  } finally {
    world.stop();
    await own?.stop();
  }
}

await Promise.all(
  Array.from({ length: AT_ONCE }, async () => {
    for (let next = waiting.shift(); next; next = waiting.shift()) await run(next);
  }),
);

for (const server of Object.values(shared)) {
  const { ok, violations } = await server.api('GET', '/v1/verify');
  if (!ok) failures.push(`the balances of the server are wrong: ${violations.join('; ')}`);
  await server.stop();
}
await cluster?.stop();
console.log(`${runs.length - failures.length} of ${runs.length} scenarios passed in ${((Date.now() - began) / 1000).toFixed(0)} s`);
if (failures.length > 0) console.log(`failed:\n  ${failures.join('\n  ')}`);
process.exit(failures.length > 0 ? 1 : 0);
