-- A number by which a busy scope is found without reading past its old versions; 0: it has none (`postgres/spots.rs`). Nodes of the version
-- before leave it as it is. It changes seldom, so that most updates of a row stay on its page.
ALTER TABLE bursar.scopes ADD COLUMN spot bigint NOT NULL DEFAULT 0;

CREATE INDEX scopes_by_spot ON bursar.scopes (spot) WHERE spot <> 0;

UPDATE bursar.meta SET value = '7' WHERE key = 'schema';
