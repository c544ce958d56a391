-- The segments of the archived journal. `least_id` and `greatest_id` are the range of the ids of its rows, which is only roughly in order.
CREATE TABLE bursar.journal_segments (
    first_position bigint PRIMARY KEY,
    last_position  bigint NOT NULL,
    row_count      bigint NOT NULL,
    least_id       uuid NOT NULL,
    greatest_id    uuid NOT NULL,
    least_at       bigint NOT NULL,
    greatest_at    bigint NOT NULL,
    bytes          bigint NOT NULL,
    head_bytes     bigint NOT NULL,
    plain_bytes    bigint NOT NULL,
    digest         bytea NOT NULL,
    previous       bytea NOT NULL
);
CREATE INDEX journal_segments_last ON bursar.journal_segments (last_position);
CREATE INDEX journal_segments_ids ON bursar.journal_segments (greatest_id);
UPDATE bursar.meta SET value = '5' WHERE key = 'schema';
