-- Decides the one take or peek that a caller sends alone, of whatever but slots, as ration_apply_v1 would: a read, and a
-- write if it passes.
--
--   row    the row key
--   limit  its 11 numbers, as in lims of ration_apply_v1
--   times  negative for a peek
--   at     the clock, or 0
--
-- It answers: the clock, 1 if it wrote, 1 if a budget's bounds do not hold, times that passed, level, unit, stamp, since,
-- expires, uses.
CREATE OR REPLACE FUNCTION @schema@.ration_one_v1(
    row_key bytea, lim bigint[], cost bigint, times bigint, at bigint, lax boolean, wait bigint)
RETURNS bigint[] LANGUAGE plpgsql
SET enable_seqscan = off SET jit = off
AS $function$
#variable_conflict use_variable
DECLARE
    clock bigint := extract(epoch FROM clock_timestamp()) * 1000000;
    kind bigint := lim[1];
    size bigint := lim[2];
    gain bigint := lim[4];
    unit bigint := lim[5];
    tick bigint := lim[6];
    span bigint := lim[7];
    r    @schema@.ration_states;
    ex   boolean;
    lag  bigint;
    room bigint; -- a bucket's level, or what is left
    brim bigint;
    per  bigint; -- what one charge takes of room
    n    bigint := 0;
    m    bigint;
    counting boolean;
    nu   integer;
    first boolean := true;
    ignored text;
    latest bigint; -- the row's clock
    level bigint; stamp bigint; since bigint; expires bigint; uses bigint[];
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'ration decides in isolation level read committed only' USING ERRCODE = 'RN001';
    END IF;
    IF at = 0 THEN
        at := clock;
    ELSE
        lag := clock - at;
    END IF;
    IF kind = 4 AND (at < lim[8] OR at >= lim[11]) THEN
        RETURN ARRAY[clock, 0, 1, 0, 0, 0, 0, 0, 0];
    END IF;
    LOOP
        SELECT * INTO r FROM @schema@.ration_states t WHERE t.key = row_key;
        ex := coalesce(r.expires > at, false);
        IF kind = 1 THEN
            brim := size * unit;
            room := brim;
            IF ex AND r.unit <> 0 THEN
                IF r.unit = unit THEN
                    room := least(greatest(r.level, brim - @most@), brim);
                ELSE
                    m := r.level / r.unit - (r.level % r.unit < 0)::integer;
                    room := brim - @most@;
                    IF m >= size THEN
                        room := brim;
                    ELSIF m > room / unit - (room % unit < 0)::integer THEN
                        room := m * unit;
                    END IF;
                END IF;
                m := at / tick - r.stamp / tick - (r.stamp % tick > 0)::integer;
                IF m > 0 THEN
                    IF m >= (brim - room) / gain + ((brim - room) % gain > 0)::integer THEN
                        room := brim;
                    ELSE
                        room := room + m * gain;
                    END IF;
                END IF;
            END IF;
        ELSIF kind = 2 THEN
            latest := at;
            room := size;
            IF ex AND r.uses IS NOT NULL THEN
                nu := cardinality(r.uses) / 3;
                latest := greatest(at, r.uses[nu]);
                room := size - (SELECT least(coalesce(sum(u.c), 0), @most@) FROM unnest(r.uses[1:nu], r.uses[nu + 1:2 * nu], r.uses[2 * nu + 1:3 * nu]) u(a, c, w)
                    WHERE u.a + least(u.w, span) > latest);
            END IF;
        ELSE
            counting := ex AND r.stamp <> 0;
            room := size;
            IF counting THEN
                room := size - r.level;
            END IF;
        END IF;

        IF cost = 0 THEN
            IF room >= 0 THEN
                n := abs(times);
            END IF;
        ELSIF cost <= size THEN
            per := cost;
            IF kind = 1 THEN
                per := cost * unit;
            END IF;
            n := greatest(0, least(abs(times), room / per));
        END IF;
        IF n = 0 OR cost = 0 OR times < 0 THEN
            IF r.key IS NULL THEN
                RETURN ARRAY[clock, 0, 0, n, 0, 0, 0, 0, 0];
            END IF;
            RETURN ARRAY[clock, 0, 0, n, r.level, r.unit, r.stamp, r.since, r.expires] || r.uses;
        END IF;

        since := CASE WHEN NOT ex THEN at ELSE greatest(at, r.since) END;
        IF kind = 1 THEN
            level := room - n * per;
            stamp := at - at % tick;
            IF stamp < at AND room >= brim - gain THEN
                stamp := stamp + tick;
            END IF;
            IF ex THEN
                stamp := greatest(r.stamp, stamp);
                IF room < brim THEN
                    since := r.since;
                END IF;
            END IF;
            m := brim - level;
            expires := least((greatest(at / tick, stamp / tick + (stamp % tick > 0)::integer) + least(m / gain + (m % gain > 0)::integer, @century@ / tick)) * tick, at + @century@);
        ELSIF kind = 2 THEN
            level := 0;
            stamp := 0;
            IF ex AND r.uses IS NOT NULL THEN
                since := r.since;
                uses := r.uses;
            ELSE
                since := CASE WHEN NOT ex THEN latest ELSE greatest(latest, r.since) END;
                uses := '{}';
            END IF;
            SELECT u.uses, u.expires INTO uses, expires FROM @schema@.ration_use_v1(uses, latest, n * cost, span) u;
        ELSIF counting THEN
            level := r.level + n * cost;
            stamp := r.stamp;
            since := r.since;
            expires := r.expires;
        ELSE
            level := n * cost;
            stamp := CASE WHEN kind = 3 THEN at + span WHEN at < lim[9] THEN lim[9] WHEN at < lim[10] THEN lim[10] ELSE lim[11] END;
            expires := stamp;
        END IF;
        IF kind <> 1 THEN
            unit := 0;
        END IF;

        IF first THEN
            first := false;
            IF lax THEN
                ignored := set_config('synchronous_commit', 'off', true);
            END IF;
            IF wait > 0 THEN
                ignored := set_config('lock_timeout', wait::text, true);
            END IF;
        END IF;
        IF r.key IS NULL THEN
            INSERT INTO @schema@.ration_states AS t (level, unit, stamp, since, expires, lag, key, uses) VALUES (level, unit, stamp, since, expires, lag, row_key, uses) ON CONFLICT DO NOTHING;
        ELSE
            -- What another has changed meanwhile is left as it is, but locked: the next look is the last.
            UPDATE @schema@.ration_states AS t SET level = level, unit = unit, stamp = stamp, since = since, expires = expires, lag = lag, uses = uses
                WHERE t.key = row_key AND t.level = r.level AND t.unit = r.unit AND t.stamp = r.stamp AND t.since = r.since AND t.expires = r.expires
                AND t.uses IS NOT DISTINCT FROM r.uses;
        END IF;
        EXIT WHEN FOUND;
        unit := lim[5];
        n := 0;
    END LOOP;
    RETURN ARRAY[clock, 1, 0, n, level, unit, stamp, since, expires] || uses;
END
$function$;
