CREATE SCHEMA IF NOT EXISTS bursar;

CREATE TABLE bursar.meta (
    key   text COLLATE "C" PRIMARY KEY,
    value text NOT NULL
);

-- Every charge updates the rows of its scopes. Half-empty pages and no second index keep each update on its page (a HOT update).
-- `state` has the balances in a compact binary form, `budget` is JSON. A row with version 0 was created only to be locked.
CREATE TABLE bursar.scopes (
    tenant  text COLLATE "C" NOT NULL,
    scope   text COLLATE "C" NOT NULL,
    version bigint NOT NULL,
    state   bytea NOT NULL,
    budget  text,
    PRIMARY KEY (tenant, scope)
) WITH (fillfactor = 50);

-- `state` 0: neither settled nor expired. `data` is the whole hold in a compact binary form; the other columns repeat what an index needs.
CREATE TABLE bursar.holds (
    id         uuid PRIMARY KEY,
    tenant     text COLLATE "C" NOT NULL,
    state      smallint NOT NULL,
    expires_at bigint NOT NULL,
    data       bytea NOT NULL
);
-- For the sweep of expired holds. The hold of a job has no expiry of its own, so it is not in this index.
CREATE INDEX holds_due ON bursar.holds (expires_at, id) WHERE state = 0 AND expires_at < 9223372036854775807;

-- The charges of live holds on a scope, once they have left the row of the scope.
CREATE TABLE bursar.live_charges (
    tenant     text COLLATE "C" NOT NULL,
    scope      text COLLATE "C" NOT NULL,
    expires_at bigint NOT NULL,
    hold       uuid NOT NULL,
    placed_at  bigint NOT NULL,
    amount     bigint NOT NULL,
    PRIMARY KEY (tenant, scope, expires_at, hold)
);

-- Units spent. Postings that no window can reach any more are added up in `rollups` and deleted.
CREATE TABLE bursar.postings (
    tenant text COLLATE "C" NOT NULL,
    scope  text COLLATE "C" NOT NULL,
    at     bigint NOT NULL,
    seq    bigint NOT NULL,
    amount bigint NOT NULL,
    hold   uuid,
    PRIMARY KEY (tenant, scope, at, seq)
);

CREATE TABLE bursar.rollups (
    tenant text COLLATE "C" NOT NULL,
    scope  text COLLATE "C" NOT NULL,
    amount bigint NOT NULL,
    PRIMARY KEY (tenant, scope)
);

-- A grant is written twice: when it is created and when it is redeemed. The fill factor leaves room for the second version on the
-- same page, so that the update does not touch the index.
CREATE TABLE bursar.grants (
    id         uuid PRIMARY KEY,
    tenant     text COLLATE "C" NOT NULL,
    expires_at bigint NOT NULL,
    state      smallint NOT NULL,
    data       bytea NOT NULL
) WITH (fillfactor = 45);

-- Idempotency keys. `batch` and `command` locate the answer in the journal.
CREATE TABLE bursar.keys (
    tenant      text COLLATE "C" NOT NULL,
    key         text COLLATE "C" NOT NULL,
    fingerprint uuid NOT NULL,
    batch       uuid NOT NULL,
    command     uuid NOT NULL,
    until       bigint NOT NULL,
    PRIMARY KEY (tenant, key)
);
CREATE INDEX keys_until ON bursar.keys (until);

-- Jobs by their keys, which are unique per queue.
CREATE TABLE bursar.job_keys (
    tenant text COLLATE "C" NOT NULL,
    queue  text COLLATE "C" NOT NULL,
    key    text COLLATE "C" NOT NULL,
    job    uuid NOT NULL,
    PRIMARY KEY (tenant, queue, key)
);

-- Live jobs. `state`:
--   0 ready: can be leased
--   1 behind: another job of its flow key is before it
--   2 barred: its flow key is at the concurrency limit
--   3 put off: the rate of its flow key admits it later
--   4 scheduled
--   5 parked: awaits units of the scope `awaits`
--   6 leased
-- `at` is when the job is due, or when its lease expires. `rank` is its order in the queue, or when its lease began. `spec` never changes,
-- `life` does.
CREATE TABLE bursar.jobs (
    id     uuid PRIMARY KEY,
    tenant text COLLATE "C" NOT NULL,
    queue  text COLLATE "C" NOT NULL,
    kind   text COLLATE "C" NOT NULL,
    flow   text COLLATE "C" NOT NULL,
    state  smallint NOT NULL,
    rank   bigint NOT NULL,
    at     bigint NOT NULL,
    awaits text COLLATE "C",
    spec   bytea NOT NULL,
    life   bytea NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX jobs_ready ON bursar.jobs (tenant, queue, kind, rank, id) WHERE state = 0;
CREATE INDEX jobs_lines ON bursar.jobs (tenant, queue, flow, state, kind, rank, id) WHERE state IN (1, 2);
CREATE INDEX jobs_due ON bursar.jobs (tenant, queue, at) WHERE state IN (3, 4);
-- For the age of the oldest waiting job. Ready jobs whose rank is their instant are left out: `jobs_ready` has them in that order.
CREATE INDEX jobs_waiting ON bursar.jobs (tenant, queue, at) WHERE state < 3 AND (state > 0 OR rank <> at);
CREATE INDEX jobs_lapse ON bursar.jobs (at) WHERE state = 6;
CREATE INDEX jobs_look ON bursar.jobs (at) WHERE state = 5;
CREATE INDEX jobs_awaits ON bursar.jobs (tenant, awaits, id) WHERE state = 5;

-- Finished jobs, until the retention of their queue is over.
CREATE TABLE bursar.ended_jobs (
    id     uuid PRIMARY KEY,
    tenant text COLLATE "C" NOT NULL,
    queue  text COLLATE "C" NOT NULL,
    kind   text COLLATE "C" NOT NULL,
    state  smallint NOT NULL,
    at     bigint NOT NULL,
    data   bytea NOT NULL
);
CREATE INDEX ended_jobs_at ON bursar.ended_jobs (tenant, queue, state, at);

CREATE TABLE bursar.queues (
    tenant text COLLATE "C" NOT NULL,
    queue  text COLLATE "C" NOT NULL,
    data   text NOT NULL,
    PRIMARY KEY (tenant, queue)
);

CREATE TABLE bursar.schedules (
    tenant  text COLLATE "C" NOT NULL,
    name    text COLLATE "C" NOT NULL,
    next_at bigint NOT NULL,
    data    text NOT NULL,
    PRIMARY KEY (tenant, name)
);
CREATE INDEX schedules_due ON bursar.schedules (next_at);

-- Counters. Each is the sum of up to 64 rows, one per `lane`: concurrent writers use different lanes and do not wait for each other.
-- `tallies` counts jobs by state and by minute, `costs` adds up units by day.
CREATE TABLE bursar.tallies (
    tenant text COLLATE "C" NOT NULL,
    queue  text COLLATE "C" NOT NULL,
    what   smallint NOT NULL,
    minute bigint NOT NULL,
    lane   smallint NOT NULL,
    count  bigint NOT NULL,
    PRIMARY KEY (tenant, queue, what, minute, lane)
) WITH (fillfactor = 50);
CREATE TABLE bursar.costs (
    tenant text COLLATE "C" NOT NULL,
    day    bigint NOT NULL,
    queue  text COLLATE "C" NOT NULL,
    kind   text COLLATE "C" NOT NULL,
    scope  text COLLATE "C" NOT NULL,
    lane   smallint NOT NULL,
    amount bigint NOT NULL,
    PRIMARY KEY (tenant, day, queue, kind, scope, lane)
) WITH (fillfactor = 50);
-- The units that the holds of jobs set aside at present: high * 2^32 + low.
CREATE TABLE bursar.held (
    tenant text COLLATE "C" NOT NULL,
    queue  text COLLATE "C" NOT NULL,
    kind   text COLLATE "C" NOT NULL,
    unit   text COLLATE "C" NOT NULL,
    lane   smallint NOT NULL,
    high   bigint NOT NULL,
    low    bigint NOT NULL,
    PRIMARY KEY (tenant, queue, kind, unit, lane)
) WITH (fillfactor = 50);

-- Payloads above 1 KiB, by the id of their job or grant.
CREATE TABLE bursar.payloads (
    id   uuid PRIMARY KEY,
    data text NOT NULL
);

-- One row per batch. `count` is its number of events; `prev` and `entries` are JSON.
CREATE TABLE bursar.journal (
    id      uuid PRIMARY KEY,
    at      bigint NOT NULL,
    count   integer NOT NULL,
    prev    text NOT NULL,
    entries text NOT NULL
);

-- Rows of large batches are compressed, which is much faster with lz4. A server that does not support lz4 uses its default method.
DO $$
BEGIN
    EXECUTE 'ALTER TABLE bursar.journal ALTER COLUMN prev SET COMPRESSION lz4, ALTER COLUMN entries SET COMPRESSION lz4';
EXCEPTION WHEN feature_not_supported OR syntax_error THEN
    NULL;
END
$$;

-- Batches that have no position yet. A batch that has seen the commit of another one has the greater `seq`, whatever the clocks say.
CREATE TABLE bursar.journal_new (
    seq   bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id    uuid NOT NULL,
    count integer NOT NULL
);

-- Positions: dense, in the order in which batches became visible.
CREATE TABLE bursar.journal_order (
    position bigint PRIMARY KEY,
    id       uuid NOT NULL UNIQUE,
    count    integer NOT NULL
);

INSERT INTO bursar.meta (key, value) VALUES ('schema', '1')
ON CONFLICT (key) DO UPDATE SET value = EXCLUDED.value;
