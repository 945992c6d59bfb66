-- Decides what most batches are made of: takes and peeks of one op each, on different keys, of buckets, counters and budgets.
-- It answers as ration_apply_v1 would, by one statement for all of them.
--
--   keys   row keys, distinct and ascending
--   lims   as of ration_apply_v1
--   places how many numbers stand in lims before the limit of each key
--   costs  of each key
--   times  of each key, negative for a peek; if empty, each is a take of one
--   ats    the clock for each key, or 0; if empty, it is the database's
--   lax    the commit need not wait for the disk
--   wait   how many ms a lock may take; 0: for ever
--
-- It answers a row of eight numbers, of which the first is the clock and the second is 1 if it wrote; then a row for each
-- key; of two for one key the later one counts: place of the key, 1 if a budget's bounds do not hold, times that passed,
-- level, unit, stamp, since, expires.
CREATE OR REPLACE FUNCTION @schema@.ration_take_v1(
    keys bytea[], lims bigint[], places bigint[], costs bigint[], times bigint[], ats bigint[], lax boolean, wait bigint)
RETURNS bigint[] LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off
AS $function$
#variable_conflict use_column
DECLARE
    clock   bigint := extract(epoch FROM clock_timestamp()) * 1000000;
    reply   bigint[];
    changed bigint[]; -- places of the rows that were updated
    made    bigint;   -- how many rows were inserted
    wanted  bigint;   -- how many were to be updated
    missing bigint;   -- and inserted
    rows    bigint[];
    todo    bigint[]; -- those that others had changed before their lock was free; null: all
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'ration decides in isolation level read committed only' USING ERRCODE = 'RN001';
    END IF;
    IF lax THEN
        PERFORM set_config('synchronous_commit', 'off', true);
    END IF;
    IF wait > 0 THEN
        PERFORM set_config('lock_timeout', wait::text, true);
    END IF;
    LOOP
        -- OFFSET 0 keeps each step a step, whose columns are computed once.
        WITH d AS MATERIALIZED (
            SELECT o.i, o.key, t.ctid AS tid, a.bad, c.n, c.w, nullif(clock - a.at, 0) AS lag,
                t.level AS old_level, t.unit AS old_unit, t.stamp AS old_stamp, t.since AS old_since, t.expires AS old_expires,
                e.level, CASE WHEN a.kind = 1 THEN a.unit ELSE 0 END AS unit, e.stamp,
                CASE WHEN NOT a.ex THEN a.at WHEN b.running THEN t.since ELSE greatest(a.at, t.since) END AS since,
                CASE WHEN a.kind = 1 THEN
                    least((greatest(a.at / a.tick, e.stamp / a.tick + (e.stamp % a.tick > 0)::integer)
                        + least((a.brim - e.level) / a.gain + ((a.brim - e.level) % a.gain > 0)::integer, @century@ / a.tick)) * a.tick, a.at + @century@)
                ELSE e.stamp END AS expires
            FROM (SELECT * FROM unnest(keys, places, costs, times, ats) WITH ORDINALITY u(key, lim, cost, times, at, i)
                WHERE todo IS NULL OR u.i = ANY (todo) OFFSET 0) o
            LEFT JOIN @schema@.ration_states t ON t.key = o.key
            CROSS JOIN LATERAL (
                SELECT l.*, l.size * l.unit AS brim, coalesce(t.expires > l.at, false) AS ex, coalesce(abs(o.times), 1) AS times,
                    l.kind = 4 AND (l.at < lims[o.lim + 8] OR l.at >= lims[o.lim + 11]) AS bad
                FROM (
                    SELECT lims[o.lim + 1] AS kind, lims[o.lim + 2] AS size, lims[o.lim + 4] AS gain, lims[o.lim + 5] AS unit, lims[o.lim + 6] AS tick,
                        CASE WHEN o.at > 0 THEN o.at ELSE clock END AS at OFFSET 0
                ) l OFFSET 0
            ) a
            -- A state as its limit sees it: a bucket's level, or how much of a count is left.
            CROSS JOIN LATERAL (
                SELECT CASE WHEN a.kind <> 1 THEN a.size - CASE WHEN a.ex AND t.stamp <> 0 THEN t.level ELSE 0 END
                        WHEN s.ticks <= 0 THEN s.level
                        WHEN s.ticks >= (a.brim - s.level) / a.gain + ((a.brim - s.level) % a.gain > 0)::integer THEN a.brim
                        ELSE s.level + s.ticks * a.gain END AS room,
                    a.ex AND t.stamp <> 0 AND a.kind <> 1 AS counting
                FROM (
                    SELECT CASE WHEN a.kind <> 1 OR NOT a.ex OR t.unit = 0 THEN a.brim
                            WHEN t.unit = a.unit THEN least(greatest(t.level, a.brim - @most@), a.brim)
                            ELSE (SELECT CASE WHEN x.tokens >= a.size THEN a.brim
                                    WHEN x.tokens <= x.floor / a.unit - (x.floor % a.unit < 0)::integer THEN x.floor
                                    ELSE x.tokens * a.unit END
                                FROM (SELECT t.level / t.unit - (t.level % t.unit < 0)::integer AS tokens, a.brim - @most@ AS floor) x) END AS level,
                        CASE WHEN a.kind = 1 AND a.ex AND t.unit <> 0 THEN a.at / a.tick - t.stamp / a.tick - (t.stamp % a.tick > 0)::integer ELSE 0 END AS ticks
                    OFFSET 0
                ) s OFFSET 0
            ) r
            CROSS JOIN LATERAL (
                SELECT r.counting OR a.kind = 1 AND r.room < a.brim AS running,
                    CASE WHEN o.cost > a.size THEN 0 WHEN a.kind = 1 THEN o.cost * a.unit ELSE o.cost END AS per OFFSET 0
            ) b
            CROSS JOIN LATERAL (
                SELECT f.n, f.n > 0 AND o.cost > 0 AND coalesce(o.times, 1) > 0 AS w FROM (
                    SELECT CASE WHEN a.bad OR o.cost > a.size THEN 0
                        WHEN o.cost = 0 THEN CASE WHEN r.room >= 0 THEN a.times ELSE 0 END
                        ELSE greatest(0, least(a.times, r.room / b.per)) END AS n OFFSET 0
                ) f OFFSET 0
            ) c
            CROSS JOIN LATERAL (
                SELECT CASE WHEN a.kind = 1 THEN r.room - c.n * b.per ELSE a.size - r.room + c.n * b.per END AS level,
                    CASE WHEN a.kind = 1 THEN
                        greatest(CASE WHEN a.ex THEN t.stamp ELSE 0 END,
                            a.at - a.at % a.tick + CASE WHEN a.at % a.tick > 0 AND r.room >= a.brim - a.gain THEN a.tick ELSE 0 END)
                    WHEN r.counting THEN t.stamp
                    WHEN a.kind = 3 THEN a.at + lims[o.lim + 7]
                    WHEN a.at < lims[o.lim + 9] THEN lims[o.lim + 9]
                    WHEN a.at < lims[o.lim + 10] THEN lims[o.lim + 10]
                    ELSE lims[o.lim + 11] END AS stamp OFFSET 0
            ) e
        ), u AS (
            -- A row that was changed meanwhile is locked and left as it is. Its numbers are compared, as some releases of
            -- PostgreSQL do not look at ctid again when they have waited for a lock.
            UPDATE @schema@.ration_states t SET level = d.level, unit = d.unit, stamp = d.stamp, since = d.since, expires = d.expires, lag = d.lag, uses = NULL
                FROM d WHERE d.w AND t.ctid = d.tid AND t.level = d.old_level AND t.unit = d.old_unit AND t.stamp = d.old_stamp AND t.since = d.old_since
                    AND t.expires = d.old_expires AND t.key = d.key
                RETURNING d.i
        ), m AS (
            INSERT INTO @schema@.ration_states (level, unit, stamp, since, expires, lag, key)
                SELECT d.level, d.unit, d.stamp, d.since, d.expires, d.lag, d.key FROM d WHERE d.w AND d.tid IS NULL ON CONFLICT DO NOTHING RETURNING 1
        )
        SELECT array_agg(CASE WHEN d.w THEN ARRAY[d.i, CASE WHEN d.tid IS NULL THEN 3 ELSE 2 END, d.n, d.level, d.unit, d.stamp, d.since, d.expires]
                ELSE ARRAY[d.i, d.bad::integer, d.n, coalesce(d.old_level, 0), coalesce(d.old_unit, 0), coalesce(d.old_stamp, 0), coalesce(d.old_since, 0),
                    coalesce(d.old_expires, 0)] END),
            count(*) FILTER (WHERE d.w AND d.tid IS NOT NULL), count(*) FILTER (WHERE d.w AND d.tid IS NULL),
            ARRAY(SELECT u.i FROM u), (SELECT count(*) FROM m)
        INTO rows, wanted, missing, changed, made
        FROM d;
        IF reply IS NULL THEN
            reply := ARRAY[clock, (wanted + missing > 0)::integer, 0, 0, 0, 0, 0, 0] || rows;
        ELSE
            reply := reply || rows;
        END IF;
        IF made < missing THEN
            -- Others are locked by now, and this one is not: it is out of order.
            RAISE EXCEPTION 'a state was made meanwhile' USING ERRCODE = '40001';
        END IF;
        EXIT WHEN cardinality(changed) = wanted;
        todo := ARRAY(SELECT rows[g.i][1] FROM generate_series(1, array_length(rows, 1)) g(i) WHERE rows[g.i][2] = 2 AND rows[g.i][1] <> ALL (changed));
    END LOOP;
    RETURN reply;
END
$function$;
