// Drives graphile-worker with its local queue and batched completion, as its documentation on performance does.
import { Logger, makeWorkerUtils, run as startWorker } from "graphile-worker";
import { batches, inParallel, run, versionOf } from "../../measure/measure.mjs";
import { connect } from "../../measure/postgres.mjs";

const quiet = new Logger(() => () => {});
const ADDED_AT_ONCE = 5_000;
const LANES = 2;

run(async (ask) => {
  const concurrentJobs = ask.concurrency || 24;
  const settings = {
    logger: quiet,
    connectionString: ask.database,
    concurrentJobs,
    maxPoolSize: 25,
    localQueue: { size: 500 },
    completeJobBatchDelay: 0,
    failJobBatchDelay: 0,
  };
  const own = await connect(ask.database);
  const utils = await makeWorkerUtils({ preset: { worker: { ...settings, maxPoolSize: Math.max(ask.callers, 10) } } });
  await utils.migrate();
  return {
    label: (work) => ({
      peer: "graphile-worker",
      version: versionOf("graphile-worker"),
      engine: "postgres",
      settings: {
        drain: `concurrentJobs ${concurrentJobs}, localQueue 500, completeJobBatchDelay 0`,
        "enqueue-bulk": `${LANES} lanes of addJobs(${ADDED_AT_ONCE})`,
        enqueue: "one connection per caller",
        latency: `concurrentJobs ${concurrentJobs}, localQueue 500, completeJobBatchDelay 0`,
      }[work],
    }),
    enqueueBulk: (jobs) => inParallel(batches(jobs, ADDED_AT_ONCE), LANES, (numbers) =>
      utils.addJobs(numbers.map((n) => ({ identifier: "nothing", payload: { n } })))),
    enqueue: () => utils.addJob("nothing", { n: 1 }),
    start: (handed) => startWorker({
      preset: { worker: settings },
      noHandleSignals: true,
      parsedCronItems: [],
      taskList: { nothing: () => handed(1) },
    }),
    stop: (runner) => runner.stop(),
    unfinished: () => own.count("SELECT count(*) FROM graphile_worker._private_jobs"),
    rest: own.rest,
    close: async () => {
      await utils.release();
      await own.close();
    },
  };
});
