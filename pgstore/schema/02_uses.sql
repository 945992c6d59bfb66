-- A sliding window's uses are three arrays of one length: times in order, costs, windows.

-- Makes one of all uses of one window that lie in one part of it, at the latest of their times.
CREATE OR REPLACE FUNCTION @schema@.ration_join_v1(INOUT a bigint[], INOUT c bigint[], INOUT w bigint[])
LANGUAGE plpgsql IMMUTABLE AS $function$
DECLARE
    most constant bigint := 9007199254740991;
    ja bigint[] := '{}';
    jc bigint[] := '{}';
    jw bigint[] := '{}';
    n integer := 0;
    j integer;
    part bigint;
    cost bigint;
BEGIN
    FOR i IN 1..cardinality(a) LOOP
        part := (w[i] + 127) / 128;
        cost := c[i];
        j := n;
        WHILE j > 0 LOOP
            IF ja[j] / part <> a[i] / part THEN
                j := 0;
            ELSIF jw[j] = w[i] THEN
                cost := least(cost + jc[j], most);
                EXIT;
            ELSE
                j := j - 1;
            END IF;
        END LOOP;
        IF j = 0 THEN
            n := n + 1;
        ELSIF j < n THEN
            ja := ja[1:j - 1] || ja[j + 1:n];
            jc := jc[1:j - 1] || jc[j + 1:n];
            jw := jw[1:j - 1] || jw[j + 1:n];
        END IF;
        ja[n] := a[i];
        jc[n] := cost;
        jw[n] := w[i];
    END LOOP;
    a := ja;
    c := jc;
    w := jw;
END
$function$;

-- Adds a use at "at", which is not before the last one.
CREATE OR REPLACE FUNCTION @schema@.ration_use_v1(INOUT uses bigint[], at bigint, cost bigint, span bigint, OUT expires bigint)
LANGUAGE plpgsql IMMUTABLE AS $function$
DECLARE
    most constant bigint := 9007199254740991;
    n integer := coalesce(cardinality(uses), 0) / 3;
    i integer;
    a bigint[];
    c bigint[];
    w bigint[];
BEGIN
    SELECT coalesce(array_agg(u.a), '{}'), coalesce(array_agg(u.c), '{}'), coalesce(array_agg(u.w), '{}'), max(least(u.a + u.w, most))
        INTO a, c, w, expires
        FROM unnest(uses[1:n], uses[n + 1:2 * n], uses[2 * n + 1:3 * n]) u(a, c, w)
        WHERE u.a + u.w > at;
    n := cardinality(a);
    i := n;
    WHILE i > 0 AND a[i] = at AND w[i] <> span LOOP
        i := i - 1;
    END LOOP;
    IF i > 0 AND a[i] = at THEN
        c[i] := least(c[i] + cost, most);
    ELSE
        n := n + 1;
        a[n] := at;
        c[n] := cost;
        w[n] := span;
        expires := greatest(expires, least(at + span, most));
        IF n > 256 THEN
            SELECT j.a, j.c, j.w INTO a, c, w FROM @schema@.ration_join_v1(a, c, w) j;
            IF cardinality(a) > 256 THEN
                span := (SELECT max(x) FROM unnest(w) x);
                w := array_fill(span, ARRAY[cardinality(a)]);
                SELECT j.a, j.c, j.w INTO a, c, w FROM @schema@.ration_join_v1(a, c, w) j;
            END IF;
            expires := (SELECT max(least(u.a + u.w, most)) FROM unnest(a, w) u(a, w));
        END IF;
    END IF;
    uses := a || c || w;
END
$function$;
