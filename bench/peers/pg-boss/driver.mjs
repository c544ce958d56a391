// Drives pg-boss with batches, bursts while they are full, and LISTEN where latency counts.
import { PgBoss } from "pg-boss";
import { batches, inParallel, run, versionOf } from "../../measure/measure.mjs";
import { connect } from "../../measure/postgres.mjs";

const QUEUE = "work";
const INSERTED_AT_ONCE = 5_000;
const LANES = 2;
const BATCH = 2_000;
const WORKERS = 2;

run(async (ask) => {
  const wakes = ask.work === "latency";
  const own = await connect(ask.database);
  const boss = new PgBoss({
    connectionString: ask.database,
    max: Math.max(ask.callers, 10),
    schedule: false,
    useListenNotify: wakes,
  });
  boss.on("error", (error) => { throw error; });
  await boss.start();
  await boss.createQueue(QUEUE, { notify: wakes, partition: true });
  const { table } = await boss.getQueue(QUEUE);
  return {
    label: (work) => ({
      peer: "pg-boss",
      version: versionOf("pg-boss"),
      engine: "postgres",
      settings: {
        drain: `partition, batchSize ${BATCH}, localConcurrency ${WORKERS}, burstWhenBatchFull`,
        "enqueue-bulk": `partition, ${LANES} lanes of insert(${INSERTED_AT_ONCE})`,
        enqueue: "partition, one connection per caller",
        latency: "partition, useListenNotify, notify",
      }[work],
    }),
    enqueueBulk: (jobs) => inParallel(batches(jobs, INSERTED_AT_ONCE), LANES, (numbers) =>
      boss.insert(QUEUE, numbers.map((n) => ({ data: { n } })))),
    enqueue: () => boss.send(QUEUE, { n: 1 }),
    start: async (handed) => {
      const options = wakes
        ? { pollingIntervalSeconds: 0.5 }
        : { batchSize: BATCH, localConcurrency: WORKERS, burstWhenBatchFull: true, pollingIntervalSeconds: 0.5 };
      return boss.work(QUEUE, options, async (jobs) => handed(jobs.length));
    },
    stop: (worker) => boss.offWork(QUEUE, { id: worker, wait: true }),
    unfinished: () => own.count(`SELECT count(*) FROM pgboss.${table} WHERE name = '${QUEUE}' AND state < 'completed'`),
    rest: own.rest,
    close: async () => {
      await boss.stop({ graceful: false });
      await own.close();
    },
  };
});
