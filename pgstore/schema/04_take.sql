-- Decides what most batches are made of: takes and peeks of one op each, on different keys, of buckets, counters and budgets.
-- It answers as ration_apply_v1 would.
--
-- What passes is looked up, decided and written by one UPDATE. One that waits for a lock looks at the row again, so it
-- decides on the latest; one that does not pass locks and writes nothing. The second statement tells what is left: what is
-- refused or only asked, and rows that are not there yet. In it, rows are as of a moment after the first.
--
--   keys   row keys, distinct and ascending
--   brims  of a bucket its size in units, else the size
--   pers   what one charge takes of that; 0 is a question, -1 is more than there ever is
--   gains  of a bucket; 0: it is none
--   units, ticks   of a bucket
--   times  of each key, negative for a peek; if empty, each is a take of one
--   lims   as of ration_apply_v1, for counters and budgets
--   places how many numbers stand in lims before the limit of each key
--   at     the clock, or 0
--   lax    the commit need not wait for the disk
--   wait   how many ms a lock may take; 0: for ever
--
-- It answers a row of eight numbers, of which the first is the clock and the second is 1 if it wrote; then a row for each
-- key: place of the key, 1 if a budget's bounds do not hold, times that passed, level, unit, stamp, since, expires.
CREATE OR REPLACE FUNCTION @schema@.ration_take_v1(
    keys bytea[], brims bigint[], pers bigint[], gains bigint[], units bigint[], ticks bigint[], times bigint[], lims bigint[], places bigint[],
    at bigint, lax boolean, wait bigint)
RETURNS bigint[] LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_material = off SET jit = off
AS $function$
#variable_conflict use_column
DECLARE
    clock  bigint := date_part('epoch', clock_timestamp()) * 1000000; -- a float8 holds microseconds until 2255
    behind bigint;    -- how much an injected clock is
    reply  bigint[];
    rows   bigint[];
    place  bigint;
    passed bigint[];  -- places of the keys that the first statement has taken from
    done   boolean[]; -- whether it has, by place
    again  bigint;    -- how many rows have changed between the two, so that they would pass now
    absent bigint;    -- how many are to be made
    made   bigint;    -- and were
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
    IF at = 0 THEN
        at := clock;
    ELSE
        behind := clock - at;
    END IF;

    -- OFFSET 0 keeps each step a step, whose columns are computed once.
    WITH u AS (
        UPDATE @schema@.ration_states t SET lag = behind, uses = NULL, (level, unit, stamp, since, expires, taken) = (
            SELECT f.level, coalesce(o.unit, 0), f.stamp,
                CASE WHEN NOT f.ex THEN at WHEN f.running THEN t.since ELSE greatest(at, t.since) END,
                CASE WHEN o.gain > 0 THEN
                    least(((f.stamp + o.tick - 1) / o.tick + least((o.brim - f.level + o.gain - 1) / o.gain, @century@ / o.tick)) * o.tick, at + @century@)
                ELSE f.stamp END,
                CASE WHEN o.times > 1 THEN f.n END
            FROM (
                SELECT e.ex, e.n,
                    CASE WHEN o.gain > 0 THEN e.room < o.brim ELSE e.ex AND t.stamp <> 0 END AS running,
                    CASE WHEN o.gain > 0 THEN e.room - e.n * o.per ELSE o.brim - e.room + e.n * o.per END AS level,
                    CASE WHEN o.gain > 0 THEN
                        greatest(CASE WHEN e.ex THEN t.stamp ELSE 0 END,
                            at - at % o.tick + CASE WHEN at % o.tick > 0 AND e.room >= o.brim - o.gain THEN o.tick ELSE 0 END)
                    WHEN e.ex AND t.stamp <> 0 THEN t.stamp
                    WHEN lims[o.lim + 1] = 3 THEN at + lims[o.lim + 7]
                    WHEN at < lims[o.lim + 9] THEN lims[o.lim + 9]
                    WHEN at < lims[o.lim + 10] THEN lims[o.lim + 10]
                    ELSE lims[o.lim + 11] END AS stamp
                FROM (
                    SELECT r.room, t.expires > at AS ex, least(coalesce(o.times, 1), r.room / o.per) AS n
                    FROM (SELECT @room@ AS room OFFSET 0) r OFFSET 0
                ) e OFFSET 0
            ) f)
        FROM unnest(keys, brims, pers, gains, units, ticks, times, places) WITH ORDINALITY o(key, brim, per, gain, unit, tick, times, lim, i)
        WHERE t.key = o.key AND o.per > 0 AND coalesce(o.times, 1) > 0 AND @room@ >= o.per
            AND (o.gain > 0 OR lims[o.lim + 1] = 3 OR at >= lims[o.lim + 8] AND at < lims[o.lim + 11])
        RETURNING o.i, ARRAY[o.i, 0, coalesce(t.taken, 1), t.level, t.unit, t.stamp, t.since, t.expires] AS row
    )
    SELECT array_agg(u.i), array_agg(u.row) INTO passed, rows FROM u;
    IF cardinality(passed) = cardinality(keys) THEN
        RETURN ARRAY[clock, 1, 0, 0, 0, 0, 0, 0] || rows;
    END IF;

    reply := rows;
    done := array_fill(false, ARRAY[cardinality(keys)]);
    IF passed IS NOT NULL THEN
        FOREACH place IN ARRAY passed LOOP
            done[place] := true;
        END LOOP;
    END IF;
    WITH d AS MATERIALIZED (
        SELECT e.*,
            CASE WHEN e.gain > 0 THEN
                least((e.new_stamp / e.tick + least((e.brim - e.new_level + e.gain - 1) / e.gain, @century@ / e.tick)) * e.tick, at + @century@)
            ELSE e.new_stamp END AS new_expires
        FROM (
            SELECT c.*, c.n > 0 AND c.per > 0 AND c.times > 0 AS writes,
                CASE WHEN c.gain > 0 THEN c.room - c.n * c.per ELSE c.brim - c.room + c.n * c.per END AS new_level,
                CASE WHEN c.gain > 0 THEN at - at % c.tick + CASE WHEN at % c.tick > 0 THEN c.tick ELSE 0 END
                    WHEN lims[c.lim + 1] = 3 THEN at + lims[c.lim + 7]
                    WHEN at < lims[c.lim + 9] THEN lims[c.lim + 9]
                    WHEN at < lims[c.lim + 10] THEN lims[c.lim + 10]
                    ELSE lims[c.lim + 11] END AS new_stamp
            FROM (
                SELECT b.*,
                    CASE WHEN b.bad THEN 0
                        WHEN b.per > 0 THEN greatest(least(abs(b.times), b.room / b.per), 0)
                        WHEN b.per = 0 AND b.room >= 0 THEN abs(b.times)
                        ELSE 0 END AS n
                FROM (
                    SELECT o.i, o.key, o.brim, o.per, o.gain, coalesce(o.unit, 0) AS unit, o.tick, coalesce(o.times, 1) AS times, o.lim,
                        t.key IS NULL AS missing, coalesce(t.level, 0) AS level, coalesce(t.unit, 0) AS old_unit, coalesce(t.stamp, 0) AS stamp,
                        coalesce(t.since, 0) AS since, coalesce(t.expires, 0) AS expires,
                        o.gain = 0 AND lims[o.lim + 1] = 4 AND (at < lims[o.lim + 8] OR at >= lims[o.lim + 11]) AS bad,
                        @room@ AS room
                    FROM unnest(keys, brims, pers, gains, units, ticks, times, places, done)
                        WITH ORDINALITY o(key, brim, per, gain, unit, tick, times, lim, done, i)
                    LEFT JOIN @schema@.ration_states t ON t.key = o.key
                    WHERE NOT o.done OFFSET 0
                ) b OFFSET 0
            ) c OFFSET 0
        ) e
    ), m AS (
        INSERT INTO @schema@.ration_states AS t (level, unit, stamp, since, expires, lag, key)
            SELECT d.new_level, d.unit, d.new_stamp, at, d.new_expires, behind, d.key FROM d WHERE d.writes AND d.missing
            ON CONFLICT DO NOTHING RETURNING 1
    )
    SELECT array_agg(CASE WHEN d.writes THEN ARRAY[d.i, 0, d.n, d.new_level, d.unit, d.new_stamp, at, d.new_expires]
            ELSE ARRAY[d.i, d.bad::integer, d.n, d.level, d.old_unit, d.stamp, d.since, d.expires] END),
        count(*) FILTER (WHERE d.writes AND NOT d.missing), count(*) FILTER (WHERE d.writes AND d.missing), (SELECT count(*) FROM m)
    INTO rows, again, absent, made
    FROM d;
    IF again > 0 OR made < absent THEN
        -- Others are locked by now, and these are not: they are out of order.
        RAISE EXCEPTION 'a state has changed meanwhile' USING ERRCODE = '40001';
    END IF;
    RETURN ARRAY[clock, (made > 0 OR reply IS NOT NULL)::integer, 0, 0, 0, 0, 0, 0] || (reply || rows);
END
$function$;
