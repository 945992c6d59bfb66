-- Documents: small named values that processes share beside counts.

CREATE TABLE IF NOT EXISTS @schema@.ration_documents (
    revision bigint NOT NULL,
    expires  bigint NOT NULL, -- 0: never
    space    bytea  NOT NULL,
    name     bytea  NOT NULL,
    value    bytea  NOT NULL, -- empty: it was removed
    PRIMARY KEY (space, name)
);

CREATE UNIQUE INDEX IF NOT EXISTS ration_documents_revision ON @schema@.ration_documents (space, revision);
CREATE INDEX IF NOT EXISTS ration_documents_expires ON @schema@.ration_documents (expires) WHERE expires > 0;

-- Keeps a document, or, with mark > 0, removes it and leaves a mark for so many µs. It answers the clock, 1 if there was one
-- before, and the revision. Writers of one space wait for each other: revisions have to become visible in their order.
CREATE OR REPLACE FUNCTION @schema@.ration_put_document_v2(in_space bytea, in_name bytea, in_value bytea, in_expires bigint, mark bigint,
    OUT reply bigint[], OUT names text[])
LANGUAGE plpgsql
SET jit = off
AS $function$
DECLARE
    clock   bigint;
    last    bigint;
    existed boolean;
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'ration decides in isolation level read committed only' USING ERRCODE = 'RN001';
    END IF;
    names := '{}';
    PERFORM pg_advisory_xact_lock(hashtextextended(@literal@ || ' ' || encode(in_space, 'hex'), 1918989417));
    clock := extract(epoch FROM clock_timestamp()) * 1000000;
    SELECT count(*) > 0 INTO existed FROM @schema@.ration_documents d
        WHERE d.space = in_space AND d.name = in_name AND length(d.value) > 0 AND (d.expires = 0 OR d.expires > clock);
    IF mark > 0 AND NOT existed THEN
        reply := ARRAY[clock, 0, 0];
        RETURN;
    END IF;
    DELETE FROM @schema@.ration_documents d WHERE d.ctid = ANY (ARRAY(
        SELECT e.ctid FROM @schema@.ration_documents e WHERE e.expires > 0 AND e.expires <= clock LIMIT 100 FOR UPDATE SKIP LOCKED));
    SELECT coalesce(max(d.revision), 0) INTO last FROM @schema@.ration_documents d WHERE d.space = in_space;
    last := greatest(last + 1, clock);
    INSERT INTO @schema@.ration_documents AS d (revision, expires, space, name, value)
        VALUES (last, CASE WHEN mark > 0 THEN clock + mark ELSE in_expires END, in_space, in_name, in_value)
        ON CONFLICT (space, name) DO UPDATE SET revision = excluded.revision, expires = excluded.expires, value = excluded.value;
    reply := ARRAY[clock, existed::integer, last];
END
$function$;

-- The documents of a space after a revision, the first most of them. It answers the clock, the greatest revision, and for each
-- its revision and its expiry; its name and its value are in names, as hexadecimal digits.
CREATE OR REPLACE FUNCTION @schema@.ration_documents_v2(in_space bytea, since bigint, most bigint, OUT reply bigint[], OUT names text[])
LANGUAGE plpgsql STABLE
SET jit = off
AS $function$
DECLARE
    clock bigint := extract(epoch FROM clock_timestamp()) * 1000000;
    last  bigint;
BEGIN
    names := '{}';
    SELECT coalesce(max(d.revision), 0) INTO last FROM @schema@.ration_documents d WHERE d.space = in_space;
    reply := ARRAY[clock, last];
    IF last <= since THEN
        RETURN;
    END IF;
    SELECT reply || coalesce(array_agg(u.n ORDER BY f.revision, u.at), '{}'), coalesce(array_agg(u.t ORDER BY f.revision, u.at), '{}')
        INTO reply, names
        FROM (SELECT d.* FROM @schema@.ration_documents d
            WHERE d.space = in_space AND d.revision > since AND (d.expires = 0 OR d.expires > clock)
            ORDER BY d.revision LIMIT most) f,
        LATERAL (VALUES (1, f.revision, encode(f.name, 'hex')), (2, f.expires, encode(f.value, 'hex'))) AS u (at, n, t);
END
$function$;
