// What the drivers of queues on PostgreSQL share.
import pg from "pg";

/** A connection for what the measurement itself asks. */
export async function connect(database) {
  const client = new pg.Client({ connectionString: database });
  await client.connect();
  return {
    client,
    count: async (text) => Number((await client.query(text)).rows[0].count),
    rest: async () => {
      await client.query("VACUUM ANALYZE");
      await client.query("CHECKPOINT");
    },
    close: () => client.end(),
  };
}
