-- The tables. Columns of eight bytes come first, so that none is padded.

DO $do$
BEGIN
    -- CREATE SCHEMA IF NOT EXISTS asks for the right to create, even if it is there.
    IF to_regnamespace(@literal@) IS NULL THEN
        CREATE SCHEMA @schema@;
    END IF;
END
$do$;

CREATE TABLE IF NOT EXISTS @schema@.ration_meta (
    version integer NOT NULL
);

-- One row a state. Every row is at hand by its key alone: an index on a column that changes would make each update
-- write to the index too.
CREATE TABLE IF NOT EXISTS @schema@.ration_states (
    level   bigint NOT NULL, -- bucket: units of 1/unit token; counter, budget: the count
    unit    bigint NOT NULL,
    stamp   bigint NOT NULL, -- bucket: when level was right; counter, budget: the end
    since   bigint NOT NULL, -- a charge before is not given back
    expires bigint NOT NULL, -- from then on the row is none
    lag     bigint,          -- the server's clock less the injected one that wrote the row
    key     bytea  PRIMARY KEY,
    uses    bigint[],        -- sliding window, slots: times, then costs, then windows or holders
    taken   bigint           -- how many charges the last take of several has made: what an UPDATE answers with
);

ALTER TABLE @schema@.ration_states SET (
    fillfactor = 80,
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 2000,
    autovacuum_vacuum_insert_scale_factor = 0.2,
    autovacuum_vacuum_cost_delay = 0,
    autovacuum_analyze_scale_factor = 0.5
);

-- One row a hold, or an answer that is remembered under an id.
CREATE TABLE IF NOT EXISTS @schema@.ration_holds (
    at      bigint   NOT NULL, -- when it was charged
    ttl     bigint   NOT NULL,
    expires bigint   NOT NULL, -- of the hold
    keep    bigint   NOT NULL, -- end of the record
    lag     bigint,
    stage   smallint NOT NULL, -- 1 an answer, 2 open, 3 settled, 4 cancelled, 5 lapsed
    back    boolean  NOT NULL, -- at expiry it is given back
    key     bytea    PRIMARY KEY,
    id      bytea    NOT NULL,
    digest  bytea    NOT NULL, -- of the request
    nums    bigint[] NOT NULL, -- 19 for each op: its limit's 11, cost, used, reset, charged, reported, settled, given, when it was charged
    keys    bytea[]  NOT NULL  -- space, group, id, row key of each op
);

-- Open holds are few among all that are kept for a day: this finds those that are due, and lists them.
CREATE INDEX IF NOT EXISTS ration_holds_open ON @schema@.ration_holds (expires) WHERE stage = 2;

ALTER TABLE @schema@.ration_holds SET (
    fillfactor = 80,
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 2000,
    autovacuum_vacuum_cost_delay = 0
);

-- What Forget looks under: a few rows, only ever added to.
CREATE TABLE IF NOT EXISTS @schema@.ration_spaces (
    prefix bytea PRIMARY KEY -- what the keys of the space begin with
);
