// Shared by the drivers of queues on PostgreSQL.
import pg from "pg";

/** Opens a connection for the queries of the measurement itself. */
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
