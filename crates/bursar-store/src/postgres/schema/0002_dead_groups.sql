-- Dead jobs grouped by queue, kind and error. `fingerprint` is that of a dead job's last error, and NULL for other jobs: it finds the
-- first and the last job of a group. On a database with dead jobs, run `bursar migrate`, which also groups those.
ALTER TABLE bursar.ended_jobs ADD COLUMN fingerprint text COLLATE "C";
CREATE INDEX ended_jobs_dead ON bursar.ended_jobs (tenant, queue, kind, fingerprint, at, id) WHERE fingerprint IS NOT NULL;

-- The number of dead jobs in each group, a counter with lanes like `tallies`.
CREATE TABLE bursar.dead_groups (
    tenant      text COLLATE "C" NOT NULL,
    queue       text COLLATE "C" NOT NULL,
    kind        text COLLATE "C" NOT NULL,
    fingerprint text COLLATE "C" NOT NULL,
    lane        smallint NOT NULL,
    count       bigint NOT NULL,
    PRIMARY KEY (tenant, queue, kind, fingerprint, lane)
) WITH (fillfactor = 50);

UPDATE bursar.meta SET value = '2' WHERE key = 'schema';
