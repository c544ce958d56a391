CREATE SCHEMA IF NOT EXISTS bursar;

CREATE TABLE bursar.meta (
    key   text COLLATE "C" PRIMARY KEY,
    value text NOT NULL
);

-- Every write rewrites its scopes: half-empty pages and no further index keep that within the page.
CREATE TABLE bursar.scopes (
    tenant  text COLLATE "C" NOT NULL,
    scope   text COLLATE "C" NOT NULL,
    version bigint NOT NULL,
    state   bytea NOT NULL,
    budget  text,
    PRIMARY KEY (tenant, scope)
) WITH (fillfactor = 50);

CREATE TABLE bursar.holds (
    id         uuid PRIMARY KEY,
    tenant     text COLLATE "C" NOT NULL,
    state      smallint NOT NULL,
    expires_at bigint NOT NULL,
    data       bytea NOT NULL
);
-- What the sweeper looks for. Holds that a job owns never expire by themselves.
CREATE INDEX holds_due ON bursar.holds (expires_at, id) WHERE state = 0 AND expires_at < 9223372036854775807;

CREATE TABLE bursar.live_charges (
    tenant     text COLLATE "C" NOT NULL,
    scope      text COLLATE "C" NOT NULL,
    expires_at bigint NOT NULL,
    hold       uuid NOT NULL,
    placed_at  bigint NOT NULL,
    amount     bigint NOT NULL,
    PRIMARY KEY (tenant, scope, expires_at, hold)
);

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

-- A grant is written twice, once when it is redeemed: there is room for that beside it, so that its index is left alone.
CREATE TABLE bursar.grants (
    id         uuid PRIMARY KEY,
    tenant     text COLLATE "C" NOT NULL,
    expires_at bigint NOT NULL,
    state      smallint NOT NULL,
    data       bytea NOT NULL
) WITH (fillfactor = 45);

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

CREATE TABLE bursar.job_keys (
    tenant text COLLATE "C" NOT NULL,
    queue  text COLLATE "C" NOT NULL,
    key    text COLLATE "C" NOT NULL,
    job    uuid NOT NULL,
    PRIMARY KEY (tenant, queue, key)
);

-- Live jobs only. `state`: 0 can be leased, 1 stands behind another, 2 is barred, 3 is put off, 4 is scheduled, 5 awaits its
-- budget, 6 is leased. `at` is when it is due, or when its lease lapses; `rank` its order, or since when it is leased. `spec`
-- is written once.
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
-- Of those that can be leased only who stands elsewhere than its instant says: of the others the order of `jobs_ready` tells who
-- has waited longest.
CREATE INDEX jobs_waiting ON bursar.jobs (tenant, queue, at) WHERE state < 3 AND (state > 0 OR rank <> at);
CREATE INDEX jobs_lapse ON bursar.jobs (at) WHERE state = 6;
CREATE INDEX jobs_look ON bursar.jobs (at) WHERE state = 5;
CREATE INDEX jobs_awaits ON bursar.jobs (tenant, awaits, id) WHERE state = 5;

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

-- Sums, in as many parts as there are writers at once, so that none waits for another.
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
-- What holds of jobs set aside now: `high` counts in steps of 2^32.
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

CREATE TABLE bursar.payloads (
    id   uuid PRIMARY KEY,
    data text NOT NULL
);

-- One row a transaction: `prev` and `entries` are JSON.
CREATE TABLE bursar.journal (
    id      uuid PRIMARY KEY,
    at      bigint NOT NULL,
    count   integer NOT NULL,
    prev    text NOT NULL,
    entries text NOT NULL
);

-- A row of many commands is long enough to be compressed. With lz4 that takes a fraction of the time; a server that was
-- built without it, or that is too old to know it, compresses as it always did.
DO $$
BEGIN
    EXECUTE 'ALTER TABLE bursar.journal ALTER COLUMN prev SET COMPRESSION lz4, ALTER COLUMN entries SET COMPRESSION lz4';
EXCEPTION WHEN feature_not_supported OR syntax_error THEN
    NULL;
END
$$;

-- Transactions that have no position yet. A number is drawn before the commit, so whoever builds on what another one
-- committed has the greater number, whatever the clocks say.
CREATE TABLE bursar.journal_new (
    seq   bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id    uuid NOT NULL,
    count integer NOT NULL
);

-- Positions: dense, in the order in which transactions became visible.
CREATE TABLE bursar.journal_order (
    position bigint PRIMARY KEY,
    id       uuid NOT NULL UNIQUE,
    count    integer NOT NULL
);

INSERT INTO bursar.meta (key, value) VALUES ('schema', '1')
ON CONFLICT (key) DO UPDATE SET value = EXCLUDED.value;
