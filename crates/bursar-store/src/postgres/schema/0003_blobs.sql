-- The metadata of blobs. `at` is when maintenance has to look at the blob: when it may be doomed, or its bytes deleted.
CREATE TABLE bursar.blobs (
    id        uuid PRIMARY KEY,
    tenant    text COLLATE "C" NOT NULL,
    namespace text COLLATE "C" NOT NULL,
    state     smallint NOT NULL,
    at        bigint NOT NULL,
    data      bytea NOT NULL
) WITH (fillfactor = 70);
CREATE INDEX blobs_names ON bursar.blobs (tenant, namespace, id);
CREATE INDEX blobs_tenants ON bursar.blobs (tenant, id);
CREATE INDEX blobs_due ON bursar.blobs (at, id) WHERE at < 9223372036854775807;

-- The live blob that uploads of the same bytes find.
CREATE TABLE bursar.blob_digests (
    tenant    text COLLATE "C" NOT NULL,
    namespace text COLLATE "C" NOT NULL,
    digest    bytea NOT NULL,
    blob      uuid NOT NULL,
    PRIMARY KEY (tenant, namespace, digest)
);

-- The rules of namespaces, as JSON.
CREATE TABLE bursar.namespaces (
    tenant    text COLLATE "C" NOT NULL,
    namespace text COLLATE "C" NOT NULL,
    data      text NOT NULL,
    PRIMARY KEY (tenant, namespace)
);

UPDATE bursar.meta SET value = '3' WHERE key = 'schema';
