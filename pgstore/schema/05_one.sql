-- Decides one take or peek of a sliding window for ration_one_v1.
CREATE OR REPLACE FUNCTION @schema@.ration_window_v1(
    row_key bytea, size bigint, cost bigint, span bigint, times bigint, at bigint, clock bigint, lag bigint, lax boolean, wait bigint)
RETURNS bigint[] LANGUAGE plpgsql
SET enable_seqscan = off SET jit = off
AS $function$
#variable_conflict use_variable
DECLARE
    r @schema@.ration_states;
    counts boolean; -- the row has uses that are not over
    nu integer;
    n bigint;
    room bigint;
    latest bigint; -- the row's clock
    since bigint;
    uses bigint[];
    expires bigint;
    ready boolean := false;
    ignored text;
BEGIN
    LOOP
        SELECT * INTO r FROM @schema@.ration_states t WHERE t.key = row_key;
        counts := coalesce(r.expires > at AND r.uses IS NOT NULL, false);
        latest := at;
        room := size;
        IF counts THEN
            nu := cardinality(r.uses) / 3;
            latest := greatest(at, r.uses[nu]);
            room := size - (SELECT least(coalesce(sum(u.c), 0), @most@) FROM unnest(r.uses[1:nu], r.uses[nu + 1:2 * nu], r.uses[2 * nu + 1:3 * nu]) u(a, c, w)
                WHERE u.a + least(u.w, span) > latest);
        END IF;
        n := CASE WHEN cost > 0 THEN greatest(least(abs(times), room / cost), 0) WHEN cost = 0 AND room >= 0 THEN abs(times) ELSE 0 END;
        IF n = 0 OR cost = 0 OR times < 0 THEN
            RETURN ARRAY[clock, 0, 0, n, coalesce(r.level, 0), coalesce(r.unit, 0), coalesce(r.stamp, 0), coalesce(r.since, 0), coalesce(r.expires, 0)]
                || r.uses;
        END IF;
        since := CASE WHEN counts THEN r.since WHEN r.expires > at THEN greatest(latest, r.since) ELSE latest END;
        SELECT u.uses, u.expires INTO uses, expires FROM @schema@.ration_use_v1(CASE WHEN counts THEN r.uses ELSE '{}' END, latest, n * cost, span) u;
        IF NOT ready THEN
            ready := true;
            IF lax THEN
                ignored := set_config('synchronous_commit', 'off', true);
            END IF;
            IF wait > 0 THEN
                ignored := set_config('lock_timeout', wait::text, true);
            END IF;
        END IF;
        IF r.key IS NULL THEN
            INSERT INTO @schema@.ration_states AS t (level, unit, stamp, since, expires, lag, key, uses) VALUES (0, 0, 0, since, expires, lag, row_key, uses)
                ON CONFLICT DO NOTHING;
        ELSE
            -- What another has changed meanwhile is left as it is, but locked: the next look is the last.
            UPDATE @schema@.ration_states AS t SET level = 0, unit = 0, stamp = 0, since = since, expires = expires, lag = lag, uses = uses
                WHERE t.key = row_key AND t.level = r.level AND t.unit = r.unit AND t.stamp = r.stamp AND t.since = r.since AND t.expires = r.expires
                AND t.uses IS NOT DISTINCT FROM r.uses;
        END IF;
        IF FOUND THEN
            RETURN ARRAY[clock, 1, 0, n, 0, 0, 0, since, expires] || uses;
        END IF;
    END LOOP;
END
$function$;

-- Decides the one take or peek that a caller sends alone, of whatever but slots, as ration_apply_v1 would. Each expression
-- here is set up anew in each transaction, which is most of what a take costs: they are few, and the usual ones short.
--
--   row_key  the row key
--   kind     1 bucket, 2 sliding window, 3 counter, 4 budget
--   brim     of a bucket its size in units, else the size
--   per      what one charge takes of that; 0 is a question, -1 is more than there ever is
--   gain, unit, tick   of a bucket, else 0
--   span     of a sliding window or a counter
--   bounds   of a budget
--   times    negative for a peek
--   at       the clock, or 0
--   lax      the commit need not wait for the disk
--   wait     how many ms a lock may take; 0: for ever
--
-- It answers: the clock, 1 if it wrote, 1 if a budget's bounds do not hold, times that passed, level, unit, stamp, since,
-- expires, uses.
CREATE OR REPLACE FUNCTION @schema@.ration_one_v1(
    row_key bytea, kind bigint, brim bigint, per bigint, gain bigint, unit bigint, tick bigint, span bigint, bounds bigint[], times bigint, at bigint,
    lax boolean, wait bigint)
RETURNS bigint[] LANGUAGE plpgsql
SET enable_seqscan = off SET jit = off
AS $function$
#variable_conflict use_variable
DECLARE
    clock bigint := date_part('epoch', clock_timestamp()) * 1000000; -- a float8 holds microseconds until 2255
    lag bigint;
    r @schema@.ration_states;
    room bigint;
    n bigint;
    level bigint;
    stamp bigint;
    since bigint;
    expires bigint;
    ready boolean;
    ignored text;
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'ration decides in isolation level read committed only' USING ERRCODE = 'RN001';
    END IF;
    IF at = 0 THEN
        at := clock;
    ELSE
        lag := clock - at;
    END IF;
    IF kind <> 1 THEN
        IF kind = 2 THEN
            RETURN @schema@.ration_window_v1(row_key, brim, per, span, times, at, clock, lag, lax, wait);
        ELSIF kind = 4 AND (at < bounds[1] OR at >= bounds[4]) THEN
            RETURN ARRAY[clock, 0, 1, 0, 0, 0, 0, 0, 0];
        END IF;
    END IF;
    LOOP
        SELECT * INTO r FROM @schema@.ration_states t WHERE t.key = row_key;
        IF r.expires > at AND r.unit = unit AND kind = 1 THEN
            room := least(brim, greatest(r.level, brim - @most@) + least(greatest(at / tick - (r.stamp + tick - 1) / tick, 0), @most@ / gain + 1) * gain);
        ELSE
            room := @room of row@;
        END IF;
        IF room >= per AND per > 0 AND times = 1 THEN
            n := 1;
        ELSE
            n := CASE WHEN per > 0 THEN greatest(least(abs(times), room / per), 0) WHEN per = 0 AND room >= 0 THEN abs(times) ELSE 0 END;
            IF n = 0 OR per = 0 OR times < 0 THEN
                RETURN ARRAY[clock, 0, 0, n, coalesce(r.level, 0), coalesce(r.unit, 0), coalesce(r.stamp, 0), coalesce(r.since, 0),
                    coalesce(r.expires, 0)];
            END IF;
        END IF;
        IF ready IS NULL THEN
            ready := true;
            IF lax THEN
                ignored := set_config('synchronous_commit', 'off', true);
            END IF;
            IF wait > 0 THEN
                ignored := set_config('lock_timeout', wait::text, true);
            END IF;
        END IF;
        IF kind = 1 THEN
            level := room - n * per;
            stamp := greatest(CASE WHEN r.expires > at THEN r.stamp ELSE 0 END,
                at - at % tick + CASE WHEN at % tick > 0 AND room >= brim - gain THEN tick ELSE 0 END);
            expires := least(((stamp + tick - 1) / tick + least((brim - level + gain - 1) / gain, @century@ / tick)) * tick, at + @century@);
            since := CASE WHEN room < brim THEN r.since WHEN r.expires > at THEN greatest(at, r.since) ELSE at END;
        ELSIF r.expires > at AND r.stamp <> 0 THEN
            level := r.level + n * per;
            stamp := r.stamp;
            since := r.since;
            expires := r.expires;
        ELSE
            level := n * per;
            stamp := CASE WHEN kind = 3 THEN at + span WHEN at < bounds[2] THEN bounds[2] WHEN at < bounds[3] THEN bounds[3] ELSE bounds[4] END;
            expires := stamp;
            since := CASE WHEN r.expires > at THEN greatest(at, r.since) ELSE at END;
        END IF;
        IF r.key IS NULL THEN
            INSERT INTO @schema@.ration_states (level, unit, stamp, since, expires, lag, key) VALUES (level, unit, stamp, since, expires, lag, row_key)
                ON CONFLICT DO NOTHING;
        ELSE
            -- What another has changed meanwhile is left as it is, but locked: the next look is the last.
            UPDATE @schema@.ration_states AS t SET level = level, unit = unit, stamp = stamp, since = since, expires = expires, lag = lag, uses = NULL
                WHERE t.key = row_key AND t.level = r.level AND t.unit = r.unit AND t.stamp = r.stamp AND t.since = r.since AND t.expires = r.expires;
        END IF;
        IF FOUND THEN
            RETURN ARRAY[clock, 1, 0, n, level, unit, stamp, since, expires];
        END IF;
    END LOOP;
END
$function$;
