-- Removes rows that have expired from some pages of a table, and passes over those that a caller has locked. There is no
-- index on the time of expiry: it changes with each take.
--
--   part     states or holds
--   injected the clock of whoever injects one, or 0. A row last written at an injected clock is removed if it has expired by
--            this one, or if what was left of its life then, and a day more, has passed on the server's clock; another row,
--            if it has expired by the server's clock and, if there is one, by this.
--   page     the first
--   pages    how many
--   most     rows at most
--   alone    do nothing if another does it
--
-- It answers: rows removed, the next page (0 after the last), 1 if another does it.
CREATE OR REPLACE FUNCTION @schema@.ration_sweep_v1(part text, injected bigint, page bigint, pages bigint, most bigint, alone boolean)
RETURNS bigint[] LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_indexscan = off SET enable_bitmapscan = off SET jit = off
AS $function$
DECLARE
    clock  bigint := extract(epoch FROM clock_timestamp()) * 1000000;
    name   regclass := @literal@ || '.ration_' || part;
    blocks bigint := pg_relation_size(name) / current_setting('block_size')::bigint;
    low    tid := format('(%s,0)', page)::tid;
    high   tid := format('(%s,0)', page + pages)::tid;
    rows   bigint;
BEGIN
    IF alone AND NOT pg_try_advisory_xact_lock(1918989417, name::oid::integer) THEN
        RETURN ARRAY[0, page, 1];
    END IF;
    IF injected > 0 THEN
        clock := least(clock, injected);
    END IF;
    PERFORM set_config('synchronous_commit', 'off', true);
    IF part = 'holds' THEN
        DELETE FROM @schema@.ration_holds d WHERE d.ctid = ANY (ARRAY(
            SELECT e.ctid FROM @schema@.ration_holds e WHERE e.ctid >= low AND e.ctid < high
                AND CASE WHEN e.lag IS NULL THEN e.stage <> 2 AND e.keep <= clock
                    ELSE e.stage <> 2 AND e.keep <= injected OR e.keep + e.lag + 86400000000 <= clock END
                LIMIT most FOR UPDATE SKIP LOCKED));
    ELSE
        DELETE FROM @schema@.ration_states d WHERE d.ctid = ANY (ARRAY(
            SELECT t.ctid FROM @schema@.ration_states t WHERE t.ctid >= low AND t.ctid < high
                AND CASE WHEN t.lag IS NULL THEN t.expires <= clock ELSE t.expires <= injected OR t.expires + t.lag + 86400000000 <= clock END
                LIMIT most FOR UPDATE SKIP LOCKED));
    END IF;
    GET DIAGNOSTICS rows = ROW_COUNT;
    IF rows < most THEN
        page := page + pages;
    END IF;
    IF page >= blocks THEN
        page := 0;
    END IF;
    RETURN ARRAY[rows, page, 0];
END
$function$;

-- The holds that are open and have expired, at most so many: for each 1 if it is due by the injected clock, by which it was
-- made, and its id as hexadecimal digits.
CREATE OR REPLACE FUNCTION @schema@.ration_due_v1(injected bigint, most bigint, OUT reply bigint[], OUT names text[])
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET jit = off
AS $function$
DECLARE
    clock bigint := extract(epoch FROM clock_timestamp()) * 1000000;
BEGIN
    IF injected > 0 THEN
        clock := least(clock, injected);
    END IF;
    SELECT coalesce(array_agg((d.lag IS NOT NULL)::integer::bigint), '{}'), coalesce(array_agg(encode(d.id, 'hex')), '{}') INTO reply, names FROM (
        SELECT e.id, e.lag FROM @schema@.ration_holds e
        WHERE e.stage = 2 AND e.expires <= greatest(clock, injected) AND e.expires <= CASE WHEN e.lag IS NULL THEN clock ELSE injected END
        ORDER BY e.expires LIMIT most) d;
END
$function$;

-- The open holds whose row keys come after the given one, at most so many. For each: when it was charged, when it expires, 1
-- if it is given back then, its ops; and for each of these its limit's 11 numbers and what it has charged. names has the row
-- key and the id of each hold, and the space, group and id of each op, as hexadecimal digits.
CREATE OR REPLACE FUNCTION @schema@.ration_open_v1(after bytea, most bigint, OUT reply bigint[], OUT names text[])
LANGUAGE plpgsql
SET enable_seqscan = off SET jit = off
AS $function$
DECLARE
    r @schema@.ration_holds;
    j integer;
BEGIN
    reply := '{}';
    names := '{}';
    FOR r IN
        -- By the index of those that are open: that of keys has the ended ones of a day, too.
        WITH o AS MATERIALIZED (SELECT * FROM @schema@.ration_holds e WHERE e.stage = 2)
        SELECT o.* FROM o WHERE o.key > after ORDER BY o.key LIMIT most
    LOOP
        j := cardinality(r.nums) / 19;
        reply := reply || ARRAY[r.at, r.expires, r.back::integer, j];
        names := names || ARRAY[encode(r.key, 'hex'), encode(r.id, 'hex')];
        FOR i IN 1..j LOOP
            reply := reply || r.nums[19 * i - 18:19 * i - 8] || r.nums[19 * i - 4];
            FOR k IN 4 * i - 3..4 * i - 1 LOOP
                names := names || encode(r.keys[k], 'hex');
            END LOOP;
        END LOOP;
    END LOOP;
END
$function$;
