-- The units that the expiry of a hold posts on the scope.
ALTER TABLE bursar.live_charges ADD COLUMN on_expiry bigint NOT NULL DEFAULT 0;
UPDATE bursar.meta SET value = '4' WHERE key = 'schema';
