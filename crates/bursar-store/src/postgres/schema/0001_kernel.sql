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

CREATE TABLE bursar.grants (
    id         uuid PRIMARY KEY,
    tenant     text COLLATE "C" NOT NULL,
    expires_at bigint NOT NULL,
    state      smallint NOT NULL,
    data       bytea NOT NULL
);

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

CREATE TABLE bursar.jobs (
    id     uuid PRIMARY KEY,
    tenant text COLLATE "C" NOT NULL,
    queue  text COLLATE "C" NOT NULL,
    kind   text COLLATE "C" NOT NULL,
    run_at bigint NOT NULL,
    data   bytea NOT NULL
);

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
