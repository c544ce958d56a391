-- Row-level security, the second wall between tenants. It stands for every role but superusers, roles with BYPASSRLS and, until
-- `bursar migrate` forces it, the owner of the tables. A transaction sees the rows of the tenants in its setting `bursar.tenants`,
-- separated by U+001F, which no name contains; without the setting it sees none. The list is a subquery, so that a statement evaluates it
-- once and not per row. The owner, and only the owner, sees all rows with `bursar.every_tenant = on`.
CREATE FUNCTION bursar.is_owner() RETURNS boolean LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN pg_has_role(current_user, (SELECT c.relowner FROM pg_class c WHERE c.oid = 'bursar.meta'::regclass), 'USAGE');
END
$$;

-- Writers hold this lock shared. Without it, altering one table after another could deadlock with them.
SELECT pg_advisory_xact_lock(7094702627873751042);

DO $$
DECLARE
    whole constant text := $whole$(current_setting('bursar.every_tenant', true) = 'on' AND bursar.is_owner())$whole$;
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['scopes', 'holds', 'live_charges', 'postings', 'rollups', 'grants', 'keys', 'job_keys', 'jobs',
        'ended_jobs', 'queues', 'schedules', 'tallies', 'costs', 'held', 'dead_groups', 'blobs', 'blob_digests', 'namespaces'] LOOP
        EXECUTE format('ALTER TABLE bursar.%I ENABLE ROW LEVEL SECURITY', name);
        EXECUTE format($policy$CREATE POLICY tenants ON bursar.%I USING (
            tenant = ANY ((SELECT string_to_array(current_setting('bursar.tenants', true), chr(31)))::text[]) OR %s)$policy$, name, whole);
    END LOOP;

    -- A payload has no tenant of its own. It is seen with its job or grant; the id of a result is that of its job with the first bit set.
    ALTER TABLE bursar.payloads ENABLE ROW LEVEL SECURITY;
    EXECUTE format($policy$CREATE POLICY tenants ON bursar.payloads USING (coalesce(
        (SELECT true FROM bursar.jobs j WHERE j.id = encode(set_bit(uuid_send(payloads.id), 7, 0), 'hex')::uuid),
        (SELECT true FROM bursar.ended_jobs j WHERE j.id = encode(set_bit(uuid_send(payloads.id), 7, 0), 'hex')::uuid),
        (SELECT true FROM bursar.grants g WHERE g.id = payloads.id),
        %s)) WITH CHECK (true)$policy$, whole);

    -- A row of the journal can have entries of several tenants. It is seen by the readers of the whole journal, which say that they are.
    ALTER TABLE bursar.journal ENABLE ROW LEVEL SECURITY;
    EXECUTE format($policy$CREATE POLICY readers ON bursar.journal USING (
        current_setting('bursar.journal', true) = 'on' OR %s) WITH CHECK (true)$policy$, whole);
END
$$;

-- The functions below run with the rights of the owner and see the rows of all tenants until they return. That is why each says what it
-- returns, and why only the role of the setting postgres.role may execute them.

-- The rows of the journal that idempotency keys refer to, for transactions that do not read the whole journal.
CREATE FUNCTION bursar.journal_rows(ids uuid[]) RETURNS TABLE (id uuid, entries text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
DECLARE
    before constant text := coalesce(current_setting('bursar.every_tenant', true), '');
BEGIN
    PERFORM set_config('bursar.every_tenant', 'on', true);
    RETURN QUERY SELECT j.id, j.entries FROM bursar.journal j WHERE j.id = ANY (ids);
    PERFORM set_config('bursar.every_tenant', before, true);
END
$$;

-- The tenant of a credential or a blob, for requests that have only its id.
CREATE FUNCTION bursar.tenant_of(id uuid) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
DECLARE
    before constant text := coalesce(current_setting('bursar.every_tenant', true), '');
    found text;
BEGIN
    PERFORM set_config('bursar.every_tenant', 'on', true);
    found := coalesce(
        (SELECT g.tenant FROM bursar.grants g WHERE g.id = tenant_of.id),
        (SELECT b.tenant FROM bursar.blobs b WHERE b.id = tenant_of.id));
    PERFORM set_config('bursar.every_tenant', before, true);
    RETURN found;
END
$$;

-- The tenants in which a step of maintenance has work: those of the first rows that the step then reads, or more. `now` bounds what is
-- due, `after` and `after_id` are where the step continues, `most` is how many rows it reads.
CREATE FUNCTION bursar.tenants_to_maintain(step text, now bigint, after text, after_id uuid, most bigint) RETURNS text[]
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
DECLARE
    before constant text := coalesce(current_setting('bursar.every_tenant', true), '');
    never constant bigint := 9223372036854775807;
    found text[] := '{}';
    next text COLLATE "C" := after;
BEGIN
    PERFORM set_config('bursar.every_tenant', 'on', true);
    CASE step
    WHEN 'due_holds' THEN
        found := ARRAY(SELECT DISTINCT r.tenant FROM (
            SELECT h.tenant FROM bursar.holds h
            WHERE h.state = 0 AND h.expires_at < 9223372036854775807 AND h.expires_at <= now
            ORDER BY h.expires_at, h.id LIMIT most) r);
    WHEN 'due_jobs' THEN
        found := ARRAY(
            (SELECT j.tenant FROM bursar.jobs j WHERE j.state = 6 AND j.at <= now ORDER BY j.at LIMIT most) UNION
            (SELECT j.tenant FROM bursar.jobs j WHERE j.state = 5 AND j.at <= now ORDER BY j.at LIMIT most));
    WHEN 'due_blobs' THEN
        found := ARRAY(SELECT DISTINCT r.tenant FROM (
            SELECT b.tenant FROM bursar.blobs b WHERE b.at < 9223372036854775807 AND b.at <= now
            ORDER BY b.at, b.id LIMIT most) r);
    WHEN 'due_schedules' THEN
        -- The schedule after the due ones says when to look again.
        found := ARRAY(
            (SELECT s.tenant FROM bursar.schedules s WHERE s.next_at <= now ORDER BY s.next_at LIMIT most) UNION
            (SELECT s.tenant FROM bursar.schedules s WHERE s.next_at > now AND s.next_at < never ORDER BY s.next_at LIMIT 1));
    WHEN 'keys' THEN
        found := ARRAY(SELECT DISTINCT r.tenant FROM (
            SELECT k.tenant FROM bursar.keys k WHERE k.until <= now ORDER BY k.until LIMIT most) r);
    WHEN 'holds' THEN
        found := ARRAY(SELECT DISTINCT r.tenant FROM (
            SELECT h.tenant FROM bursar.holds h WHERE h.id > after_id ORDER BY h.id LIMIT most) r);
    WHEN 'grants' THEN
        found := ARRAY(SELECT DISTINCT r.tenant FROM (
            SELECT g.tenant FROM bursar.grants g WHERE g.id > after_id ORDER BY g.id LIMIT most) r);
    WHEN 'blobs' THEN
        found := ARRAY(SELECT DISTINCT r.tenant FROM (
            SELECT b.tenant FROM bursar.blobs b WHERE b.id > after_id ORDER BY b.id LIMIT most) r);
    ELSE
        -- The next tenants in order of names, found by skipping from one to the next in an index. The step may have stopped between two
        -- rows of the tenant `after`.
        IF after <> '' THEN
            found := ARRAY[after];
        END IF;
        LOOP
            CASE step
            WHEN 'scopes' THEN
                next := (SELECT t.tenant FROM bursar.scopes t WHERE t.tenant > next ORDER BY t.tenant LIMIT 1);
            WHEN 'tallies' THEN
                next := (SELECT t.tenant FROM bursar.tallies t WHERE t.tenant > next ORDER BY t.tenant LIMIT 1);
            WHEN 'costs' THEN
                next := (SELECT t.tenant FROM bursar.costs t WHERE t.tenant > next ORDER BY t.tenant LIMIT 1);
            WHEN 'ended_jobs' THEN
                next := (SELECT t.tenant FROM bursar.ended_jobs t WHERE t.tenant > next ORDER BY t.tenant LIMIT 1);
            WHEN 'awaited' THEN
                next := (SELECT t.tenant FROM bursar.jobs t WHERE t.state = 5 AND t.tenant > next ORDER BY t.tenant LIMIT 1);
            END CASE;
            EXIT WHEN next IS NULL OR cardinality(found) > most;
            found := found || next;
        END LOOP;
    END CASE;
    PERFORM set_config('bursar.every_tenant', before, true);
    RETURN found;
END
$$;

REVOKE EXECUTE ON FUNCTION bursar.journal_rows(uuid[]), bursar.tenant_of(uuid),
    bursar.tenants_to_maintain(text, bigint, text, uuid, bigint) FROM PUBLIC;

UPDATE bursar.meta SET value = '6' WHERE key = 'schema';
