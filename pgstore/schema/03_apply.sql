-- Decides a batch of transactions: what fits, and the new rows. Times of retry and reset are computed in Go from the rows
-- in the reply. The rules are those of docs/semantics.md; docs/decisions tells why it is built like this.
--
-- Numbers come as flat arrays:
--   keys    row keys of ops, distinct and ascending
--   lims    11 for each limit: kind, size, rate, gain, unit, tick, span, four bounds
--   ops     5 for each op: place in keys, place in lims, cost, times, time of the charge that is given back
--   txns    7 for each transaction: verb, clock or 0, place in ops, number of ops, place in ids or 0, place in holds, in texts
--   ids     row keys of holds, distinct and ascending
--   holds   for each transaction with an id: flags (1 a hold, 2 given back at expiry), ttl, holder, number of amounts, amounts
--   texts   for each transaction with an id: id, digest, and of a take's ops: space, group, id
--   forgets for each op of a Forget: what the spaces begin with in which it forgets, and what its row keys end with
--   spaces  what row keys of new rows may begin with, where this caller does not know it kept
--   lax     the commit need not wait for the disk
--   wait    how many ms a lock may take; 0: for ever
--
-- reply has the clock, 1 if it wrote, and for each transaction: error, clock, allowed, form, ops; and for each op, by form:
--   1 times (of a take or peek; else the row's own clock), given, fits, level, unit, stamp, since, expires, length of uses, uses
--   2 used, reset, as remembered under an id
--   3 fits, given
-- A form above 10 is of a hold: before these numbers stand the 11 of the op's limit, its cost, and after how many of names
-- its space, group and id stand there, as hexadecimal digits.
CREATE OR REPLACE FUNCTION @schema@.ration_apply_v1(
    keys bytea[], lims bigint[], ops bigint[], txns bigint[], ids bytea[], holds bigint[], texts bytea[], forgets bytea[],
    spaces bytea[], lax boolean, wait bigint,
    OUT reply bigint[], OUT names text[])
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off
AS $function$
#variable_conflict use_column
DECLARE
    clock   bigint := extract(epoch FROM clock_timestamp()) * 1000000;
    rich    boolean := cardinality(ids) > 0 OR cardinality(forgets) > 0;
    nt      integer := cardinality(txns) / 7;
    nk      integer := cardinality(keys);
    ni      integer := cardinality(ids);
    nx      integer := cardinality(ops) / 5;
    all_keys bytea[] := keys;
    place   integer[];                -- from keys to all_keys
    known   bytea[];                  -- prefixes of all spaces

    -- By place in all_keys: rows as they are to be, and as they were; which changed, which are to be locked.
    s       @schema@.ration_states[];
    s_old   @schema@.ration_states[];
    s_new   @schema@.ration_states[];
    s_dirty boolean[];
    s_hot   boolean[];

    -- The same by place in ids.
    h       @schema@.ration_holds[];
    h_old   @schema@.ration_holds[];
    h_new   @schema@.ration_holds[];
    h_dirty boolean[];
    h_hot   boolean[];

    -- By transaction.
    t_hot   boolean[];
    t_err   bigint[];
    t_at    bigint[];
    t_allow boolean[];
    t_form  bigint[];
    t_first integer[];
    t_ops   integer[];

    -- By op: those of the caller, then those that holds and Forget bring.
    o_key      integer[];
    o_lim      integer[];
    o_cost     bigint[];
    o_times    bigint[];
    o_fits     boolean[];
    o_given    bigint[];
    o_state    @schema@.ration_states[];
    o_used     bigint[];
    o_reset    bigint[];
    o_act      integer[];
    o_n        bigint[];
    o_charged  bigint[];
    o_reported bigint[];
    o_settled  bigint[];
    o_at       bigint[];
    o_names    integer[];

    r     @schema@.ration_states;
    rec   @schema@.ration_holds;
    found record;

    -- The transaction at hand.
    verb    bigint;
    at      bigint;
    lag     bigint;
    err     bigint;
    allow   boolean;
    form    bigint;
    first   integer;
    last    integer;
    hi      integer; -- place in ids
    hp      integer; -- place in holds
    tp      integer; -- place in texts
    ttl     bigint;
    holder  bigint;
    until   bigint;  -- expiry of the hold
    opening boolean; -- a take that is to be remembered
    lapse   boolean; -- the hold has expired, and is given back first
    amounts bigint[];

    -- The op at hand.
    x     integer;
    k     integer;
    lim   integer;
    seen  integer := -1; -- the limit whose numbers are read
    kind  bigint;
    size  bigint;
    gain  bigint;
    unit  bigint;
    tick  bigint;
    span  bigint;
    cost  bigint;
    act   integer; -- 1 charge, 2 give back, 3 reset, 4 hold, 5 free, 6 extend
    n     bigint;
    given bigint;

    -- Its state, as its limit sees it.
    v_ex    boolean; -- it exists
    v_open  boolean; -- counter, budget: one is open; bucket: not full
    v_now   bigint;
    v_used  bigint;
    v_level bigint;
    v_full  bigint;
    v_base  bigint;  -- tick from which refill goes on
    v_end   bigint;
    v_ok    boolean; -- a budget's bounds hold
    w_level bigint;  -- bucket: level to be written; null: none
    w_top   bigint;

    i integer;
    j integer;
    nu integer;
    m bigint;
    q bigint;
    ua bigint[];
    uc bigint[];
    uw bigint[];
    again boolean;
    touched boolean;
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'ration decides in isolation level read committed only' USING ERRCODE = 'RN001';
    END IF;

    IF rich THEN
        -- Holds know their keys, and Forget is of all spaces.
        known := ARRAY(SELECT p.prefix FROM @schema@.ration_spaces p UNION SELECT n.prefix FROM unnest(spaces) n(prefix));
        all_keys := coalesce((SELECT array_agg(d.key ORDER BY d.key) FROM (
                SELECT u.key FROM unnest(keys) u(key)
                UNION
                SELECT e.keys[4 * g.i] FROM unnest(ids) u(id) JOIN @schema@.ration_holds e ON e.key = u.id,
                    generate_series(1, cardinality(e.keys) / 4) g(i)
                UNION
                SELECT CASE WHEN length(p.prefix || f.tail) > @raw@ THEN '\x00'::bytea || sha256(p.prefix || f.tail) ELSE p.prefix || f.tail END
                FROM generate_series(1, cardinality(forgets), 2) g(i), LATERAL (SELECT forgets[g.i], forgets[g.i + 1]) f(space, tail), unnest(known) p(prefix)
                WHERE substr(p.prefix, 2 + (get_byte(p.prefix, 0) > 127)::integer, length(f.space)) = f.space
            ) d(key)), '{}');
        place := (SELECT array_agg(array_position(all_keys, u.key) ORDER BY u.i) FROM unnest(keys) WITH ORDINALITY u(key, i));
        h := (SELECT array_agg(e ORDER BY u.i) FROM unnest(ids) WITH ORDINALITY u(key, i) LEFT JOIN @schema@.ration_holds e ON e.key = u.key);
        h_old := h;
        h_dirty := array_fill(false, ARRAY[ni]);
        nk := cardinality(all_keys);
    END IF;
    FOR x IN 1..nx LOOP
        j := ops[5 * x - 4];
        IF rich THEN
            j := place[j];
        END IF;
        o_key[x] := j;
        o_lim[x] := 11 * (ops[5 * x - 3] - 1);
        o_cost[x] := ops[5 * x - 2];
    END LOOP;

    <<attempt>> LOOP
    s := (SELECT array_agg(t ORDER BY u.i) FROM unnest(all_keys) WITH ORDINALITY u(key, i) LEFT JOIN @schema@.ration_states t ON t.key = u.key);
    s_old := s;
    s_dirty := array_fill(false, ARRAY[nk]);
    touched := false;

    FOR pass IN 1..2 LOOP
        IF pass = 2 THEN
            EXIT WHEN NOT touched;
            -- What has to change is decided again on rows that nobody else changes meanwhile, with all that hangs together
            -- with it. Locks are taken in one order everywhere: spaces, holds, states, each by their bytes.
            s_hot := s_dirty;
            h_hot := h_dirty;
            t_hot := array_fill(false, ARRAY[nt]);
            LOOP
                again := false;
                FOR i IN 1..nt LOOP
                    CONTINUE WHEN t_hot[i];
                    hi := txns[7 * i - 2];
                    IF hi > 0 AND h_hot[hi] THEN
                        t_hot[i] := true;
                    END IF;
                    FOR x IN t_first[i]..t_first[i] + t_ops[i] - 1 LOOP
                        EXIT WHEN t_hot[i];
                        t_hot[i] := s_hot[o_key[x]];
                    END LOOP;
                    CONTINUE WHEN NOT t_hot[i];
                    IF hi > 0 AND NOT h_hot[hi] THEN
                        h_hot[hi] := true;
                        again := true;
                    END IF;
                    FOR x IN t_first[i]..t_first[i] + t_ops[i] - 1 LOOP
                        IF NOT s_hot[o_key[x]] THEN
                            s_hot[o_key[x]] := true;
                            again := true;
                        END IF;
                    END LOOP;
                END LOOP;
                EXIT WHEN NOT again;
            END LOOP;

            IF wait > 0 THEN
                PERFORM set_config('lock_timeout', wait::text, true);
            END IF;
            IF cardinality(spaces) > 0 THEN
                INSERT INTO @schema@.ration_spaces (prefix) SELECT u.p FROM unnest(spaces) u(p) ORDER BY u.p ON CONFLICT DO NOTHING;
            END IF;
            again := false;
            IF rich THEN
                h_new := array_fill(NULL::@schema@.ration_holds, ARRAY[greatest(ni, 1)]);
                FOR found IN
                    SELECT u.i, e AS line FROM unnest(ids, h_hot) WITH ORDINALITY u(key, hot, i) JOIN @schema@.ration_holds e ON e.key = u.key
                    WHERE u.hot ORDER BY u.i FOR NO KEY UPDATE OF e
                LOOP
                    h_new[found.i] := found.line;
                END LOOP;
                FOR i IN 1..ni LOOP
                    CONTINUE WHEN NOT h_hot[i];
                    again := again OR h_new[i] IS DISTINCT FROM h_old[i];
                    h_old[i] := h_new[i];
                END LOOP;
            END IF;
            s_new := array_fill(NULL::@schema@.ration_states, ARRAY[greatest(nk, 1)]);
            FOR found IN
                SELECT u.i, t AS line FROM unnest(all_keys, s_hot) WITH ORDINALITY u(key, hot, i) JOIN @schema@.ration_states t ON t.key = u.key
                WHERE u.hot ORDER BY u.i FOR NO KEY UPDATE OF t
            LOOP
                s_new[found.i] := found.line;
            END LOOP;
            FOR i IN 1..nk LOOP
                CONTINUE WHEN NOT s_hot[i];
                again := again OR s_new[i] IS DISTINCT FROM s_old[i];
                s_old[i] := s_new[i];
            END LOOP;
            EXIT WHEN NOT again;
            touched := false;
            FOR i IN 1..nk LOOP
                CONTINUE WHEN NOT s_hot[i];
                s[i] := s_old[i];
                s_dirty[i] := false;
            END LOOP;
            IF rich THEN
                FOR i IN 1..ni LOOP
                    CONTINUE WHEN NOT h_hot[i];
                    h[i] := h_old[i];
                    h_dirty[i] := false;
                END LOOP;
            END IF;
        END IF;

        <<txn>> FOR i IN 1..nt LOOP
            CONTINUE WHEN pass = 2 AND NOT t_hot[i];
            verb := txns[7 * i - 6];
            at := txns[7 * i - 5];
            lag := NULL;
            IF at = 0 THEN
                at := clock;
            ELSE
                lag := clock - at;
            END IF;
            first := txns[7 * i - 4];
            last := first + txns[7 * i - 3] - 1;
            hi := txns[7 * i - 2];
            hp := txns[7 * i - 1];
            tp := txns[7 * i];
            err := 0;
            allow := true;
            form := 1;
            opening := false;
            lapse := false;
            until := 0;

            IF hi > 0 THEN
                ttl := holds[hp + 1];
                holder := holds[hp + 2];
                rec := h[hi];
                IF rec.keep <= at AND verb <> 11 THEN
                    rec := NULL;
                END IF;
                IF verb > 6 THEN
                    -- The end of a hold, or a word on it.
                    IF rec.key IS NULL OR rec.stage = 1 THEN
                        t_err[i] := 4;
                        t_at[i] := at;
                        t_allow[i] := false;
                        t_form[i] := 0;
                        t_first[i] := 1;
                        t_ops[i] := 0;
                        CONTINUE txn;
                    END IF;
                    nu := cardinality(rec.nums) / 19;
                    again := last - first + 1 = nu; -- bounds were sent anew
                    FOR j IN 1..nu LOOP
                        x := nx + j;
                        k := array_position(all_keys, rec.keys[4 * j]);
                        IF k IS NULL THEN
                            RAISE EXCEPTION 'the hold is another one now' USING ERRCODE = '40001';
                        END IF;
                        o_key[x] := k;
                        o_lim[x] := cardinality(lims);
                        lims := lims || rec.nums[19 * j - 18:19 * j - 8];
                        IF again AND rec.nums[19 * j - 18] = 4 AND lims[o_lim[first + j - 1] + 1] = 4 THEN
                            lims := lims[1:o_lim[x] + 7] || lims[o_lim[first + j - 1] + 8:o_lim[first + j - 1] + 11];
                        END IF;
                        o_cost[x] := rec.nums[19 * j - 7];
                        o_charged[x] := rec.nums[19 * j - 4];
                        o_reported[x] := rec.nums[19 * j - 3];
                        o_settled[x] := rec.nums[19 * j - 2];
                        o_given[x] := rec.nums[19 * j - 1];
                        o_at[x] := rec.nums[19 * j];
                        o_fits[x] := false;
                        o_names[x] := coalesce(cardinality(names), 0);
                        FOR k IN 4 * j - 3..4 * j - 1 LOOP
                            names := names || encode(rec.keys[k], 'hex');
                        END LOOP;
                    END LOOP;
                    first := nx + 1;
                    last := nx + nu;
                    nx := last;
                    form := 11;

                    amounts := NULL;
                    IF verb IN (7, 9) THEN
                        j := holds[hp + 3];
                        IF j = nu THEN
                            amounts := holds[hp + 4:hp + 3 + j];
                        ELSIF j = 0 AND verb = 7 THEN
                            FOR x IN first..last LOOP
                                amounts[x - first + 1] := greatest(o_cost[x], o_reported[x]);
                            END LOOP;
                        ELSIF j = 1 THEN
                            m := -1;
                            FOR x IN first..last LOOP
                                amounts[x - first + 1] := 0;
                                CONTINUE WHEN lims[o_lim[x] + 1] = 5;
                                IF m >= 0 AND m <> o_cost[x] THEN
                                    err := 6;
                                END IF;
                                m := o_cost[x];
                                amounts[x - first + 1] := holds[hp + 4];
                            END LOOP;
                        ELSIF j > 0 THEN
                            err := 6;
                        END IF;
                    END IF;
                    IF err = 0 THEN
                        allow := verb <> 11; -- of a lapse: whether it is one
                        IF rec.stage = 2 AND rec.expires <= at THEN
                            allow := true;
                            lapse := rec.back;
                            rec.stage := 5;
                            rec.lag := lag;
                            h[hi] := rec;
                            h_dirty[hi] := true;
                            touched := true;
                        END IF;
                        CASE
                        WHEN verb = 7 AND rec.stage = 4 OR verb IN (9, 10) AND rec.stage <> 2 THEN
                            err := 5;
                        WHEN verb = 7 AND rec.stage = 3 THEN
                            form := 13;
                            FOR x IN first..last LOOP
                                o_fits[x] := true;
                                IF lims[o_lim[x] + 1] <> 5 AND o_settled[x] <> amounts[x - first + 1] THEN
                                    err := 5;
                                END IF;
                            END LOOP;
                        WHEN verb = 8 AND rec.stage <> 2 OR verb = 11 THEN
                            form := 13;
                            FOR x IN first..last LOOP
                                o_fits[x] := true;
                            END LOOP;
                        WHEN verb IN (9, 10) THEN
                            IF ttl > 0 THEN
                                rec.ttl := ttl;
                            END IF;
                            m := rec.ttl;
                            FOR x IN first..last LOOP
                                IF lims[o_lim[x] + 1] = 5 THEN
                                    m := least(m, lims[o_lim[x] + 7]);
                                END IF;
                            END LOOP;
                            until := at + m;
                        ELSE
                        END CASE;
                    END IF;
                ELSIF rec.key IS NOT NULL THEN
                    -- A take that was decided before.
                    t_at[i] := at;
                    t_allow[i] := false;
                    t_form[i] := 0;
                    t_first[i] := first;
                    t_ops[i] := last - first + 1;
                    t_err[i] := 3;
                    IF rec.digest = texts[tp + 1] THEN
                        t_err[i] := 0;
                        t_at[i] := rec.at;
                        t_allow[i] := true;
                        t_form[i] := 2;
                        FOR x IN first..last LOOP
                            o_used[x] := rec.nums[19 * (x - first) + 13];
                            o_reset[x] := rec.nums[19 * (x - first) + 14];
                        END LOOP;
                    END IF;
                    CONTINUE txn;
                ELSE
                    opening := true;
                    IF holds[hp] & 1 = 1 THEN
                        m := ttl;
                        FOR x IN first..last LOOP
                            IF lims[o_lim[x] + 1] = 5 THEN
                                m := least(m, lims[o_lim[x] + 7]);
                            END IF;
                        END LOOP;
                        until := at + m;
                    END IF;
                END IF;
            ELSIF verb = 6 THEN
                form := 0;
                j := nx;
                FOR x IN first..last LOOP
                    FOREACH r.key IN ARRAY known LOOP
                        m := tp + 2 * (x - first);
                        CONTINUE WHEN substr(r.key, 2 + (get_byte(r.key, 0) > 127)::integer, length(forgets[m])) <> forgets[m];
                        r.key := r.key || forgets[m + 1];
                        IF length(r.key) > @raw@ THEN
                            r.key := '\x00'::bytea || sha256(r.key);
                        END IF;
                        nx := nx + 1;
                        o_key[nx] := array_position(all_keys, r.key);
                        o_lim[nx] := -1;
                    END LOOP;
                END LOOP;
                first := j + 1;
                last := nx;
            END IF;
            t_first[i] := first;
            t_ops[i] := last - first + 1;

            -- Step 0 gives back a hold that has expired, step 1 looks whether all fits, step 2 writes. One op alone is
            -- written in step 1.
            FOR step IN 0..2 LOOP
                CONTINUE WHEN step = 0 AND NOT lapse;
                EXIT WHEN step > 0 AND (err <> 0 OR form = 13) OR step = 2 AND (first = last OR verb = 2 OR verb = 1 AND NOT allow);
                FOR x IN first..last LOOP
                    k := o_key[x];
                    r := s[k];
                    lim := o_lim[x];
                    IF lim <> seen THEN
                        seen := lim;
                        kind := lims[lim + 1];
                        size := lims[lim + 2];
                        gain := lims[lim + 4];
                        unit := lims[lim + 5];
                        tick := lims[lim + 6];
                        span := lims[lim + 7];
                    END IF;
                    cost := o_cost[x];
                    v_ex := coalesce(r.expires > at, false);
                    v_now := at;
                    v_open := false;
                    v_used := 0;
                    v_ok := true;
                    w_level := NULL;
                    given := 0;
                    act := 0;
                    n := 0;

                    -- Open the state.
                    IF verb = 6 THEN
                        kind := 0;
                        seen := -1;
                        IF v_ex AND r.uses IS NOT NULL THEN
                            v_now := greatest(at, r.uses[cardinality(r.uses) / 3]);
                        END IF;
                    ELSIF kind = 1 THEN
                        v_full := size * unit;
                        v_level := v_full;
                        v_base := at / tick;
                        IF v_ex AND r.unit <> 0 THEN
                            v_level := r.level;
                            IF r.unit <> unit THEN
                                m := v_level / r.unit - (v_level % r.unit < 0)::integer;
                                q := v_full - @most@;
                                IF m >= size THEN
                                    v_level := v_full;
                                ELSIF m <= q / unit - (q % unit < 0)::integer THEN
                                    v_level := q;
                                ELSE
                                    v_level := m * unit;
                                END IF;
                            END IF;
                            v_level := least(greatest(v_level, v_full - @most@), v_full);
                            m := v_base;
                            v_base := greatest(m, r.stamp / tick + (r.stamp % tick > 0)::integer);
                            m := m - (r.stamp / tick + (r.stamp % tick > 0)::integer);
                            IF m > 0 THEN
                                q := v_full - v_level;
                                IF m >= q / gain + (q % gain > 0)::integer THEN
                                    v_level := v_full;
                                ELSE
                                    v_level := v_level + m * gain;
                                END IF;
                            END IF;
                            v_open := v_level < v_full;
                        END IF;
                    ELSIF kind = 3 OR kind = 4 THEN
                        IF v_ex AND r.stamp <> 0 THEN
                            v_open := true;
                            v_used := r.level;
                            v_end := r.stamp;
                        ELSIF kind = 3 THEN
                            v_end := at + span;
                        ELSE
                            v_end := CASE WHEN at < lims[lim + 9] THEN lims[lim + 9] WHEN at < lims[lim + 10] THEN lims[lim + 10] ELSE lims[lim + 11] END;
                        END IF;
                        IF kind = 4 THEN
                            v_ok := lims[lim + 8] <= at AND at < lims[lim + 11];
                        END IF;
                    ELSIF v_ex AND r.uses IS NOT NULL THEN
                        nu := cardinality(r.uses) / 3;
                        IF kind = 2 THEN
                            v_now := greatest(at, r.uses[nu]);
                            v_used := (SELECT least(coalesce(sum(u.c), 0), @most@) FROM unnest(r.uses[1:nu], r.uses[nu + 1:2 * nu], r.uses[2 * nu + 1:3 * nu]) u(a, c, w)
                                WHERE u.a + least(u.w, span) > v_now);
                        ELSE
                            v_used := (SELECT coalesce(sum(u.c), 0) FROM unnest(r.uses[1:nu], r.uses[nu + 1:2 * nu]) u(a, c) WHERE u.a > at);
                        END IF;
                    END IF;

                    -- What is to be done with it.
                    IF step = 1 THEN
                        IF verb <= 2 THEN
                            IF NOT v_ok THEN
                                err := 1;
                                EXIT;
                            END IF;
                            m := ops[5 * x - 1];
                            n := 0;
                            IF cost = 0 THEN
                                IF (CASE WHEN kind = 1 THEN v_level >= 0 ELSE v_used <= size END) THEN
                                    n := m;
                                END IF;
                            ELSIF cost <= size THEN
                                IF kind = 1 THEN
                                    IF v_level > 0 THEN
                                        n := least(m, v_level / (cost * unit));
                                    END IF;
                                ELSIF size - v_used >= cost THEN
                                    n := least(m, (size - v_used) / cost);
                                END IF;
                            END IF;
                            o_times[x] := n;
                            o_fits[x] := n = m;
                            IF n < m THEN
                                allow := false;
                            END IF;
                            IF verb = 1 THEN
                                n := n * cost;
                                act := CASE WHEN kind = 5 THEN 4 ELSE 1 END;
                            END IF;
                        ELSIF verb = 3 THEN
                            IF abs(v_used + cost) > @most@ THEN
                                err := 2;
                                EXIT;
                            END IF;
                            act := 1;
                            n := cost;
                        ELSIF verb = 4 THEN
                            act := 2;
                            n := cost;
                            m := ops[5 * x];
                        ELSIF verb <= 6 THEN
                            act := 3;
                        ELSIF verb = 8 OR verb = 7 AND kind = 5 THEN
                            o_given[x] := 0;
                            act := CASE WHEN kind = 5 THEN 5 ELSE 2 END;
                            n := o_charged[x] - o_reported[x];
                        ELSIF verb = 7 THEN
                            o_given[x] := 0; -- of what went back at the expiry nothing is answered
                            n := amounts[x - first + 1] - o_charged[x];
                            IF n > 0 THEN
                                act := 1;
                                IF NOT v_ok AND NOT v_open THEN
                                    err := 1;
                                    EXIT;
                                END IF;
                            ELSIF n < 0 THEN
                                act := 2;
                                n := -n;
                            END IF;
                        ELSIF kind = 5 THEN
                            act := 6;
                            IF NOT v_ex OR NOT EXISTS (SELECT FROM unnest(r.uses[1:nu], r.uses[2 * nu + 1:3 * nu]) u(a, w) WHERE u.w = holder AND u.a > at) THEN
                                act := 0;
                                IF cost > 0 THEN
                                    err := 5;
                                    EXIT;
                                END IF;
                            END IF;
                            o_fits[x] := true;
                        ELSE
                            o_fits[x] := true;
                            IF amounts IS NOT NULL THEN
                                o_reported[x] := greatest(o_reported[x], amounts[x - first + 1]);
                                n := o_reported[x] - o_charged[x];
                                IF n > 0 THEN
                                    act := 1;
                                    IF NOT v_ok AND NOT v_open THEN
                                        err := 1;
                                        EXIT;
                                    END IF;
                                END IF;
                            END IF;
                        END IF;
                        o_act[x] := act;
                        o_n[x] := n;
                    ELSIF step = 2 THEN
                        act := o_act[x];
                        n := o_n[x];
                    ELSE
                        act := CASE WHEN kind = 5 THEN 5 ELSE 2 END;
                        n := o_charged[x] - o_reported[x];
                    END IF;

                    IF step <> 1 OR first = last THEN
                        -- Do it. q is not 0 if the row has changed.
                        q := 0;
                        IF act = 1 AND n <> 0 THEN
                            q := 1;
                            IF kind = 1 THEN
                                w_top := v_level;
                                m := v_level - v_full + @most@;
                                IF n > m / unit THEN
                                    w_level := v_full - @most@;
                                ELSE
                                    w_level := v_level - n * unit;
                                END IF;
                            ELSIF kind = 2 THEN
                                IF NOT v_ex THEN
                                    r.since := v_now;
                                    r.uses := '{}';
                                    r.stamp := 0;
                                    r.level := 0;
                                    r.unit := 0;
                                ELSIF r.uses IS NULL THEN
                                    r.since := greatest(r.since, v_now);
                                END IF;
                                SELECT u.uses, u.expires INTO r.uses, r.expires FROM @schema@.ration_use_v1(r.uses, v_now, n, span) u;
                                nu := cardinality(r.uses) / 3;
                                v_used := (SELECT least(coalesce(sum(u.c), 0), @most@) FROM unnest(r.uses[1:nu], r.uses[nu + 1:2 * nu], r.uses[2 * nu + 1:3 * nu]) u(a, c, w)
                                    WHERE u.a + least(u.w, span) > v_now);
                            ELSE
                                n := least(v_used + n, @most@);
                                q := 2;
                            END IF;
                        ELSIF act = 2 AND n > 0 AND v_ex THEN
                            m := CASE WHEN verb = 4 THEN ops[5 * x] ELSE o_at[x] END;
                            IF m < r.since THEN
                            ELSIF kind = 1 THEN
                                IF v_level < v_full THEN
                                    m := v_full - v_level;
                                    IF n <= m / unit THEN
                                        given := n;
                                        w_level := v_level + n * unit;
                                    ELSE
                                        given := m / unit;
                                        w_level := v_full;
                                    END IF;
                                    w_top := w_level;
                                    q := 1;
                                END IF;
                            ELSIF kind = 2 THEN
                                IF m + span > v_now AND r.uses IS NOT NULL THEN
                                    FOR j IN 1..nu LOOP
                                        CONTINUE WHEN r.uses[2 * nu + j] <> span OR r.uses[j] < m;
                                        given := least(n, r.uses[nu + j]);
                                        IF given < r.uses[nu + j] THEN
                                            r.uses[nu + j] := r.uses[nu + j] - given;
                                        ELSIF nu = 1 THEN
                                            r.uses := NULL;
                                            r.since := 0;
                                            r.expires := 0;
                                        ELSE
                                            ua := r.uses[1:j - 1] || r.uses[j + 1:nu];
                                            uc := r.uses[nu + 1:nu + j - 1] || r.uses[nu + j + 1:2 * nu];
                                            uw := r.uses[2 * nu + 1:2 * nu + j - 1] || r.uses[2 * nu + j + 1:3 * nu];
                                            r.uses := ua || uc || uw;
                                            r.expires := (SELECT max(least(u.a + u.w, @most@)) FROM unnest(ua, uw) u(a, w));
                                        END IF;
                                        q := 1;
                                        EXIT;
                                    END LOOP;
                                    IF given = 0 THEN
                                        q := 0;
                                    END IF;
                                END IF;
                            ELSIF kind < 5 AND v_open AND v_used > 0 THEN
                                given := least(n, v_used);
                                n := v_used - given;
                                q := 2;
                            END IF;
                        ELSIF act = 3 AND NOT v_ex THEN
                            IF verb = 6 AND r.expires > 0 THEN
                                q := 1;
                                r.level := 0;
                                r.unit := 0;
                                r.stamp := 0;
                                r.since := 0;
                                r.expires := 0;
                                r.uses := NULL;
                            END IF;
                        ELSIF act = 3 THEN
                            IF r.unit <> 0 OR r.stamp <> 0 OR r.uses IS NOT NULL THEN
                                q := 1;
                                n := v_now + 1;
                                IF r.since > n THEN
                                    n := r.since + 1;
                                END IF;
                                m := CASE kind WHEN 0 THEN 1000000 WHEN 1 THEN tick ELSE 0 END;
                                IF r.unit > 0 AND r.stamp >= v_now + m THEN
                                    n := greatest(n, r.stamp + m);
                                END IF;
                                n := least(n, @most@);
                                r.level := 0;
                                r.unit := 0;
                                r.stamp := 0;
                                r.since := n;
                                r.expires := n;
                                r.uses := NULL;
                            END IF;
                        ELSIF act = 4 AND n > 0 THEN
                            q := 1;
                            IF NOT v_ex THEN
                                r.since := at;
                                r.level := 0;
                                r.unit := 0;
                                r.stamp := 0;
                                r.uses := NULL;
                            END IF;
                            nu := coalesce(cardinality(r.uses), 0) / 3;
                            SELECT array_agg(d.a) || array_agg(d.c) || array_agg(d.w), max(d.a) INTO r.uses, r.expires FROM (
                                SELECT u.a, u.c, u.w FROM unnest(r.uses[1:nu], r.uses[nu + 1:2 * nu], r.uses[2 * nu + 1:3 * nu]) u(a, c, w) WHERE u.a > at
                                UNION ALL VALUES (until, n, holder) ORDER BY 1, 3) d(a, c, w);
                            v_used := v_used + n;
                        ELSIF act = 5 AND v_ex AND r.uses IS NOT NULL THEN
                            j := array_position(r.uses[2 * nu + 1:3 * nu], holder);
                            IF j IS NOT NULL THEN
                                q := 1;
                                IF r.uses[j] > at THEN
                                    given := r.uses[nu + j];
                                    v_used := v_used - given;
                                END IF;
                                IF nu = 1 THEN
                                    r.uses := NULL;
                                    r.since := 0;
                                    r.expires := 0;
                                ELSE
                                    ua := r.uses[1:j - 1] || r.uses[j + 1:nu];
                                    r.uses := ua || r.uses[nu + 1:nu + j - 1] || r.uses[nu + j + 1:2 * nu] || r.uses[2 * nu + 1:2 * nu + j - 1] || r.uses[2 * nu + j + 1:3 * nu];
                                    r.expires := ua[nu - 1];
                                END IF;
                            END IF;
                        ELSIF act = 6 THEN
                            q := 1;
                            SELECT array_agg(d.a) || array_agg(d.c) || array_agg(d.w), max(d.a) INTO r.uses, r.expires FROM (
                                SELECT CASE WHEN u.w = holder AND u.a > at THEN until ELSE u.a END, u.c, u.w
                                FROM unnest(r.uses[1:nu], r.uses[nu + 1:2 * nu], r.uses[2 * nu + 1:3 * nu]) u(a, c, w) ORDER BY 1, 3) d(a, c, w);
                        END IF;

                        IF w_level IS NOT NULL THEN
                            IF NOT v_ex THEN
                                r.since := at;
                                r.stamp := 0;
                                r.uses := NULL;
                            ELSIF NOT v_open THEN
                                r.since := greatest(at, r.since);
                            END IF;
                            m := at - at % tick;
                            IF m < at AND w_top >= v_full - gain THEN
                                m := m + tick;
                            END IF;
                            r.stamp := greatest(r.stamp, m);
                            r.level := w_level;
                            r.unit := unit;
                            v_level := w_level;
                            v_base := greatest(at / tick, r.stamp / tick + (r.stamp % tick > 0)::integer);
                            m := v_full - v_level;
                            r.expires := least((v_base + least(m / gain + (m % gain > 0)::integer, @century@ / tick)) * tick, at + @century@);
                        ELSIF q = 2 THEN
                            IF NOT v_open THEN
                                r.since := CASE WHEN v_ex THEN greatest(at, r.since) ELSE at END;
                                r.unit := 0;
                                r.uses := NULL;
                                r.stamp := v_end;
                                r.expires := v_end;
                            END IF;
                            r.level := n;
                            v_used := n;
                        END IF;
                        IF q <> 0 THEN
                            r.key := all_keys[k];
                            r.lag := lag;
                            s[k] := r;
                            s_dirty[k] := true;
                            touched := true;
                        END IF;
                        IF hi > 0 THEN
                            IF step = 0 THEN
                                o_charged[x] := o_reported[x];
                                o_given[x] := given;
                            ELSIF verb = 8 OR act = 2 OR act = 5 THEN
                                o_given[x] := given;
                            END IF;
                            IF verb = 9 AND kind <> 5 AND o_reported[x] > cost THEN
                                o_fits[x] := CASE WHEN kind = 1 THEN v_level >= 0 ELSE v_used <= size END;
                                allow := allow AND o_fits[x];
                            ELSIF opening AND allow THEN
                                -- What Go will answer from the row is remembered, and the time to give it back under.
                                o_at[x] := CASE WHEN kind = 2 THEN v_now ELSE greatest(at, coalesce(r.since, 0)) END;
                                IF kind = 1 THEN
                                    m := v_level / unit - (v_level % unit < 0)::integer;
                                    o_used[x] := greatest(0, least(size - m, @most@));
                                    m := v_full - v_level;
                                    m := CASE WHEN m > 0 THEN least((v_base + least(m / gain + (m % gain > 0)::integer, @century@ / tick)) * tick, r.expires) ELSE at END;
                                ELSE
                                    o_used[x] := greatest(0, least(v_used, @most@));
                                    nu := coalesce(cardinality(r.uses), 0) / 3;
                                    IF kind = 2 THEN
                                        m := CASE WHEN r.expires > at THEN (SELECT max(u.a + least(u.w, span)) FROM unnest(r.uses[1:nu], r.uses[2 * nu + 1:3 * nu]) u(a, w)
                                            WHERE u.a + least(u.w, span) > greatest(at, r.uses[nu])) END;
                                    ELSIF kind = 5 THEN
                                        m := CASE WHEN r.expires > at THEN r.uses[nu] END;
                                    ELSE
                                        m := v_end;
                                    END IF;
                                END IF;
                                o_reset[x] := least(greatest(coalesce(m, 0), at), at + @century@);
                            END IF;
                        END IF;
                    END IF;
                    IF verb > 2 THEN
                        o_times[x] := v_now;
                        IF verb = 4 THEN
                            o_given[x] := given;
                        END IF;
                    END IF;
                    o_state[x] := r;
                END LOOP;
            END LOOP;

            IF hi > 0 AND err = 0 THEN
                IF opening AND allow THEN
                    rec := ROW (at, ttl, until, CASE WHEN until > 0 THEN until + 86400000000 ELSE at + ttl END, lag,
                        CASE WHEN until > 0 THEN 2 ELSE 1 END, holds[hp] & 2 = 2, ids[hi], texts[tp], texts[tp + 1], '{}', '{}');
                    FOR x IN first..last LOOP
                        lim := o_lim[x];
                        rec.nums := rec.nums || lims[lim + 1:lim + 11] || ARRAY[o_cost[x], o_used[x], o_reset[x], o_cost[x], 0, 0, 0, o_at[x]];
                        j := tp + 2 + 3 * (x - first);
                        rec.keys := rec.keys || texts[j:j + 2] || all_keys[o_key[x]];
                    END LOOP;
                    h[hi] := rec;
                    h_dirty[hi] := true;
                    touched := true;
                ELSIF verb > 6 AND (form <> 13 OR lapse) THEN
                    IF form = 13 THEN
                    ELSIF verb = 7 THEN
                        rec.stage := 3;
                        rec.keep := at + 86400000000;
                    ELSIF verb = 8 THEN
                        rec.stage := 4;
                        rec.keep := at + 86400000000;
                    ELSE
                        rec.expires := until;
                        rec.keep := until + 86400000000;
                    END IF;
                    rec.lag := lag;
                END IF;
            END IF;
            IF verb > 6 AND (lapse OR err = 0 AND form <> 13) THEN
                FOR x IN first..last LOOP
                    j := 19 * (x - first);
                    IF form <> 13 AND err = 0 THEN
                        IF verb = 7 THEN
                            o_charged[x] := amounts[x - first + 1];
                            o_settled[x] := o_charged[x];
                        ELSIF verb = 8 THEN
                            o_charged[x] := o_reported[x];
                        ELSIF verb >= 9 THEN
                            o_charged[x] := greatest(o_charged[x], o_reported[x]);
                        END IF;
                        IF verb <= 8 THEN
                            o_fits[x] := true;
                        END IF;
                    END IF;
                    rec.nums[j + 15] := o_charged[x];
                    rec.nums[j + 16] := o_reported[x];
                    rec.nums[j + 17] := o_settled[x];
                    rec.nums[j + 18] := o_given[x];
                END LOOP;
                h[hi] := rec;
                h_dirty[hi] := true;
                touched := true;
            END IF;
            IF verb = 8 AND form = 13 AND rec.stage <> 4 THEN
                FOR x IN first..last LOOP
                    o_given[x] := 0; -- nothing went back by this
                END LOOP;
            END IF;
            IF err <> 0 AND form > 10 THEN
                form := 13;
            ELSIF err <> 0 THEN
                form := 0;
            END IF;
            t_err[i] := err;
            t_at[i] := at;
            t_allow[i] := allow AND err = 0;
            t_form[i] := form;
        END LOOP;
    END LOOP;

    EXIT WHEN NOT touched;
    IF lax THEN
        PERFORM set_config('synchronous_commit', 'off', true);
    END IF;
    -- Those that were not there are new, or another caller has made them just now: then all is decided again.
    j := 0;
    FOR i IN 1..nk LOOP
        IF s_dirty[i] AND s_old[i] IS NULL THEN
            j := j + 1;
        END IF;
    END LOOP;
    IF j > 0 THEN
        INSERT INTO @schema@.ration_states (level, unit, stamp, since, expires, lag, key, uses)
            SELECT u.level, u.unit, u.stamp, u.since, u.expires, u.lag, u.key, u.uses FROM unnest(s) WITH ORDINALITY u(level, unit, stamp, since, expires, lag, key, uses, taken, i)
            WHERE s_dirty[u.i] AND s_old[u.i] IS NULL ORDER BY u.i
            ON CONFLICT DO NOTHING;
        GET DIAGNOSTICS n = ROW_COUNT;
        IF n < j THEN
            CONTINUE attempt WHEN nk = 1 AND NOT rich;
            RAISE EXCEPTION 'a state was made meanwhile' USING ERRCODE = '40001';
        END IF;
    END IF;
    IF rich THEN
        j := 0;
        FOR i IN 1..ni LOOP
            IF h_dirty[i] AND h_old[i] IS NULL THEN
                j := j + 1;
            END IF;
        END LOOP;
        INSERT INTO @schema@.ration_holds
            SELECT u.at, u.ttl, u.expires, u.keep, u.lag, u.stage, u.back, u.key, u.id, u.digest, u.nums, u.keys
            FROM unnest(h) WITH ORDINALITY u(at, ttl, expires, keep, lag, stage, back, key, id, digest, nums, keys, i)
            WHERE h_dirty[u.i] AND h_old[u.i] IS NULL ORDER BY u.i
            ON CONFLICT DO NOTHING;
        GET DIAGNOSTICS n = ROW_COUNT;
        IF n < j THEN
            RAISE EXCEPTION 'a hold was made meanwhile' USING ERRCODE = '40001';
        END IF;
        UPDATE @schema@.ration_holds e SET at = u.at, ttl = u.ttl, expires = u.expires, keep = u.keep, lag = u.lag, stage = u.stage, back = u.back,
                id = u.id, digest = u.digest, nums = u.nums, keys = u.keys
            FROM unnest(h) WITH ORDINALITY u(at, ttl, expires, keep, lag, stage, back, key, id, digest, nums, keys, i)
            WHERE e.key = u.key AND h_dirty[u.i] AND (h_old[u.i]).key IS NOT NULL;
    END IF;
    UPDATE @schema@.ration_states t SET level = u.level, unit = u.unit, stamp = u.stamp, since = u.since, expires = u.expires, lag = u.lag, uses = u.uses
        FROM unnest(s) WITH ORDINALITY u(level, unit, stamp, since, expires, lag, key, uses, taken, i)
        WHERE t.key = u.key AND s_dirty[u.i] AND (s_old[u.i]).key IS NOT NULL;
    EXIT;
    END LOOP;

    reply := ARRAY[clock, touched::integer];
    j := 2;
    FOR i IN 1..nt LOOP
        first := t_first[i];
        last := first + t_ops[i] - 1;
        form := t_form[i];
        reply[j + 1] := t_err[i];
        reply[j + 2] := t_at[i];
        reply[j + 3] := coalesce(t_allow[i], false)::integer;
        reply[j + 4] := form;
        reply[j + 5] := CASE WHEN form = 0 THEN 0 ELSE t_ops[i] END;
        j := j + 5;
        CONTINUE WHEN form = 0;
        FOR x IN first..last LOOP
            IF form > 10 THEN
                FOR k IN 1..11 LOOP
                    reply[j + k] := lims[o_lim[x] + k];
                END LOOP;
                reply[j + 12] := o_cost[x];
                reply[j + 13] := o_names[x];
                j := j + 13;
            END IF;
            IF form % 10 = 1 THEN
                r := o_state[x];
                reply[j + 1] := coalesce(o_times[x], 0);
                reply[j + 2] := coalesce(o_given[x], 0);
                reply[j + 3] := coalesce(o_fits[x], false)::integer;
                reply[j + 4] := coalesce(r.level, 0);
                reply[j + 5] := coalesce(r.unit, 0);
                reply[j + 6] := coalesce(r.stamp, 0);
                reply[j + 7] := coalesce(r.since, 0);
                reply[j + 8] := coalesce(r.expires, 0);
                reply[j + 9] := coalesce(cardinality(r.uses), 0);
                j := j + 9;
                IF r.uses IS NOT NULL THEN
                    reply := reply || r.uses;
                    j := j + cardinality(r.uses);
                END IF;
            ELSIF form % 10 = 2 THEN
                reply[j + 1] := o_used[x];
                reply[j + 2] := o_reset[x];
                j := j + 2;
            ELSE
                reply[j + 1] := coalesce(o_fits[x], false)::integer;
                reply[j + 2] := coalesce(o_given[x], 0);
                j := j + 2;
            END IF;
        END LOOP;
    END LOOP;
END
$function$;
