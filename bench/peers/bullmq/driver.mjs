// Drives BullMQ on a Redis that syncs each command to disk.
import { Queue, Worker } from "bullmq";
import { Redis } from "ioredis";
import { batches, inParallel, run, versionOf } from "../../measure/measure.mjs";

const QUEUE = "work";
const ADDED_AT_ONCE = 1_000;
const LANES = 2;

run(async (ask) => {
  const concurrency = ask.concurrency || 200;
  const { hostname: host, port } = new URL(ask.database);
  const connection = { host, port: Number(port), maxRetriesPerRequest: null };
  // Finished jobs are removed, which is fastest, unless the measurement is about kept jobs.
  const removeOnComplete = ask.finished > 0 ? false : true;
  const queue = new Queue(QUEUE, { connection, defaultJobOptions: { removeOnComplete } });
  await queue.waitUntilReady();
  const redis = new Redis(connection);
  const syncs = (await redis.config("GET", "appendfsync")).toString();
  if (!syncs.includes("always")) throw new Error(`this Redis is not durable: ${syncs}`);
  redis.disconnect();
  return {
    label: (work) => ({
      peer: "bullmq",
      version: versionOf("bullmq"),
      engine: "redis",
      settings: {
        drain: `appendfsync always, concurrency ${concurrency}, ${removeOnComplete ? "done jobs removed" : "done jobs kept"}`,
        "enqueue-bulk": `appendfsync always, ${LANES} lanes of addBulk(${ADDED_AT_ONCE})`,
        enqueue: "appendfsync always, one connection, pipelined",
        latency: "appendfsync always",
      }[work],
    }),
    enqueueBulk: (jobs) => inParallel(batches(jobs, ADDED_AT_ONCE), LANES, (numbers) =>
      queue.addBulk(numbers.map((n) => ({ name: "nothing", data: { n } })))),
    enqueue: () => queue.add("nothing", { n: 1 }),
    start: async (handed) => {
      const worker = new Worker(QUEUE, async () => handed(1), { connection, concurrency });
      worker.on("error", (error) => { throw error; });
      await worker.waitUntilReady();
      return worker;
    },
    stop: (worker) => worker.close(),
    unfinished: async () => {
      const counts = await queue.getJobCounts("waiting", "active", "prioritized", "delayed", "paused");
      return Object.values(counts).reduce((sum, count) => sum + count, 0);
    },
    rest: async () => {},
    close: () => queue.close(),
  };
});
