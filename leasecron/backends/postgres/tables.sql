-- The tables of a store and the functions that decide about them, in a schema of the user's choice:
-- {schema} stands for its quoted name. All instants are Unix milliseconds. What is in this file is
-- made once; the functions of the others are replaced whenever a store is brought up to date.
--
-- Every call of a store is one statement that calls one function, for a whole batch. It works at
-- READ COMMITTED, where each statement of a function sees what was committed before it began:
--
--   1. what a plain read can answer is answered and takes no lock;
--   2. the rows of the jobs are locked in the order of their names, then those of their runs in the
--      order of their keys. Everybody locks in this order, so nobody waits in a circle. Claims of
--      one job stand in line at the row of the job, and so do those who pause it or put in runs;
--      whoever holds a run meets them at its row;
--   3. only then the server's clock is read, once, and the rows are read anew, by statements of
--      their own: what they see cannot change before the transaction ends.
--
-- A row that is locked is a change, for which a commit waits until it is on the disk: see the end
-- of the function that claims.

CREATE TABLE {schema}.meta (
    key text PRIMARY KEY,
    value bigint NOT NULL
);

CREATE TABLE {schema}.jobs (
    name text PRIMARY KEY,
    schedule text NOT NULL,
    first_seen bigint NOT NULL,
    last_seen bigint NOT NULL, -- 0 where nobody has declared it
    pruned bigint,
    paused_until bigint, -- the newest end of a pause; of one that lasts, as late as can be
    once_at bigint
);

CREATE TABLE {schema}.runs (
    job text NOT NULL,
    slot bigint NOT NULL,
    state text NOT NULL,
    token text NOT NULL,
    attempt integer NOT NULL,
    lost integer NOT NULL,
    fence bigint NOT NULL,
    released_fence bigint,
    instance text NOT NULL,
    trigger text NOT NULL,
    claimed_at bigint NOT NULL,
    lease_until bigint NOT NULL,
    lease_ended boolean NOT NULL,
    retries integer NOT NULL DEFAULT 0,
    origin text NOT NULL DEFAULT 'scheduled',
    cancelled boolean NOT NULL DEFAULT false,
    PRIMARY KEY (job, slot)
);

CREATE INDEX runs_open ON {schema}.runs (job, slot)
WHERE state IN ('claimed', 'released') OR NOT lease_ended;

CREATE INDEX runs_asked_for ON {schema}.runs (slot, job)
WHERE origin <> 'scheduled' AND state IN ('claimed', 'released');

CREATE TABLE {schema}.results (
    fence bigint PRIMARY KEY,
    job text NOT NULL,
    slot bigint NOT NULL,
    attempt integer NOT NULL,
    instance text NOT NULL,
    trigger text NOT NULL,
    status text NOT NULL,
    started_at bigint NOT NULL,
    ended_at bigint NOT NULL,
    error text,
    retries integer NOT NULL DEFAULT 0
);

CREATE INDEX results_job ON {schema}.results (job, fence);

CREATE TABLE {schema}.pauses (
    job text NOT NULL,
    paused_at bigint NOT NULL,
    resumed_at bigint,
    note text NOT NULL,
    PRIMARY KEY (job, paused_at)
);

CREATE TABLE {schema}.backfills (
    job text PRIMARY KEY,
    since bigint NOT NULL,
    until bigint NOT NULL,
    total bigint NOT NULL,
    instance text NOT NULL,
    asked_at bigint NOT NULL,
    cursor bigint,
    succeeded bigint NOT NULL,
    failed bigint NOT NULL,
    ended_at bigint
);

CREATE INDEX backfills_open ON {schema}.backfills (job) WHERE ended_at IS NULL;

-- The server's clock, and nobody else's.
CREATE FUNCTION {schema}.now_ms() RETURNS bigint LANGUAGE sql VOLATILE AS $body$
    SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint
$body$;

-- Fences begin at the time of creation so that they rise across stores as well.
CREATE SEQUENCE {schema}.fences;
SELECT setval({fences}, {schema}.now_ms(), false);

-- What is asked and what is answered, one for each item of a batch. The other instant is the slot
-- of the run that stands in the way, or of a claim that is early the server's time. Nothing is
-- closed, instead of an empty list, where a claim that did not win has changed nothing.
CREATE TYPE {schema}.asked_claim AS (
    place bigint, job text, slot bigint, token text, instance text, lease bigint, overlap text,
    max_attempts integer, max_late double precision, mode text, trigger text,
    pause_on_failure boolean
);
CREATE TYPE {schema}.claim_answer AS (
    place bigint, outcome text, attempt integer, fence bigint, holder text, other bigint,
    abandoned boolean, closed {schema}.results[], retries integer, trigger text
);
