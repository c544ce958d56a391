// Drives the worker of Bursar's TypeScript SDK, over HTTP, with a server of its own.
import { spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { createInterface } from "node:readline";
import { batches, inParallel, run } from "../../measure/measure.mjs";
import { connect } from "../../measure/postgres.mjs";

const ADDED_AT_ONCE = 10_000;
const LANES = 2;
const QUEUE = "work";

run(async (ask) => {
  const { Bursar, createWorker } = await import(`${ask.sdk}/typescript/dist/index.js`);
  const token = `operator-token-of-the-bench-${randomBytes(16).toString("hex")}`;
  const options = ["serve", "--database", ask.database, "--listen", "127.0.0.1:0", "--log-level", "warn"];
  const server = spawn(ask.bursar, options, { env: { ...process.env, BURSAR_OPERATOR_TOKEN: token }, stdio: ["ignore", "pipe", "inherit"] });
  process.once("exit", () => server.kill("SIGKILL"));
  const url = await new Promise((resolve, reject) => {
    server.once("exit", (code) => reject(new Error(`the server ended with ${code}`)));
    createInterface({ input: server.stdout }).on("line", (line) => line.startsWith("listening on ") && resolve(line.slice(13)));
  });
  const bursar = new Bursar({ url, token, timeoutMs: 120_000 });
  const own = await connect(ask.database);
  return {
    label: () => ({ peer: "bursar-typescript", version: "0.1.0", engine: "postgres", settings: `concurrency ${ask.concurrency}, over HTTP` }),
    enqueueBulk: (jobs) => inParallel(batches(jobs, ADDED_AT_ONCE), LANES, (numbers) =>
      bursar.jobs.enqueueAll(numbers.map((n) => ({ queue: QUEUE, kind: "nothing", payload: { n } })))),
    start: (handed) => createWorker({ url, token, queues: [QUEUE], concurrency: ask.concurrency }).on("nothing", async () => handed(1)).start(),
    stop: (worker) => worker.drain(),
    unfinished: () => own.count("SELECT count(*) FROM bursar.jobs"),
    rest: own.rest,
    close: async () => {
      await own.close();
      server.kill("SIGKILL");
    },
  };
});
