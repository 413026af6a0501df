BEGIN;
CREATE SCHEMA "of_version_2";
-- The tables of a store and the functions that decide about them, in a schema of the user's choice:
-- "of_version_2" stands for its quoted name. All instants are Unix milliseconds. What is in this file is
-- made once; the functions of the others are replaced whenever a store is brought up to date.
--
-- Every call of a store is one statement that calls one function, for a whole batch. It works at
-- READ COMMITTED, where each statement of a function sees what was committed before it began:
--
--   1. what a plain read can answer is answered and takes no lock;
--   2. the rows of the jobs are locked in the order of their names, then those of their runs in the
--      order of their keys. Everybody locks in this order, so nobody waits in a circle. Claims of
--      one job stand in line at the row of the job; whoever holds a run meets them at its row;
--   3. only then the server's clock is read, once, and the rows are read anew, by statements of
--      their own: what they see cannot change before the transaction ends.
--
-- A row that is locked is a change, for which a commit waits until it is on the disk: see the end
-- of the function that claims.

CREATE TABLE "of_version_2".meta (
    key text PRIMARY KEY,
    value bigint NOT NULL
);

CREATE TABLE "of_version_2".jobs (
    name text PRIMARY KEY,
    schedule text NOT NULL,
    first_seen bigint NOT NULL,
    last_seen bigint NOT NULL,
    pruned bigint
);

CREATE TABLE "of_version_2".runs (
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
    PRIMARY KEY (job, slot)
);

CREATE INDEX runs_open ON "of_version_2".runs (job, slot)
WHERE state IN ('claimed', 'released') OR NOT lease_ended;

CREATE TABLE "of_version_2".results (
    fence bigint PRIMARY KEY,
    job text NOT NULL,
    slot bigint NOT NULL,
    attempt integer NOT NULL,
    instance text NOT NULL,
    trigger text NOT NULL,
    status text NOT NULL,
    started_at bigint NOT NULL,
    ended_at bigint NOT NULL,
    error text
);

CREATE INDEX results_job ON "of_version_2".results (job, fence);

-- The server's clock, and nobody else's.
CREATE FUNCTION "of_version_2".now_ms() RETURNS bigint LANGUAGE sql VOLATILE AS $body$
    SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint
$body$;

-- Fences begin at the time of creation so that they rise across stores as well.
CREATE SEQUENCE "of_version_2".fences;
SELECT setval(E'"of_version_2".fences', "of_version_2".now_ms(), false);

-- What is asked and what is answered, one for each item of a batch. The other instant is the slot
-- of the run that stands in the way, or of a claim that is early the server's time.
CREATE TYPE "of_version_2".asked_claim AS (
    place bigint, job text, slot bigint, token text, instance text, lease bigint, overlap text,
    max_attempts integer, max_late double precision, mode text, trigger text
);
CREATE TYPE "of_version_2".claim_answer AS (
    place bigint, outcome text, attempt integer, fence bigint, holder text, other bigint,
    abandoned boolean, closed "of_version_2".results[]
);

-- What is decided about one run, by the claim table.
CREATE OR REPLACE FUNCTION "of_version_2".has_ended(run "of_version_2".runs) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $body$
    SELECT run.state NOT IN ('claimed', 'released')
$body$;

CREATE OR REPLACE FUNCTION "of_version_2".is_alive(run "of_version_2".runs, now bigint) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $body$
    SELECT NOT run.lease_ended AND run.lease_until > now
$body$;

-- A slot that is still to come: whoever claims it has a clock that is ahead of the server's.
CREATE OR REPLACE FUNCTION "of_version_2".is_early(slot bigint, now bigint) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $body$
    SELECT slot > now + 1000
$body$;

CREATE OR REPLACE FUNCTION "of_version_2".texts(items json) RETURNS text[]
LANGUAGE sql IMMUTABLE AS $body$
    SELECT ARRAY(SELECT json_array_elements_text(items))
$body$;

-- Record the latest attempt of a run as lost; without effect where its record is there already.
CREATE OR REPLACE FUNCTION "of_version_2".record_lost(run "of_version_2".runs, now bigint)
RETURNS "of_version_2".results LANGUAGE plpgsql VOLATILE AS $body$
DECLARE
    lost "of_version_2".results;
BEGIN
    lost := ROW(
        run.fence, run.job, run.slot, run.attempt, run.instance, run.trigger, 'lost',
        run.claimed_at, greatest(run.claimed_at, least(run.lease_until, now)), NULL
    );
    INSERT INTO "of_version_2".results SELECT lost.* ON CONFLICT (fence) DO NOTHING;
    RETURN lost;
END
$body$;

-- End a run in its holder's place. The fresh token makes all that he still says stale.
CREATE OR REPLACE FUNCTION "of_version_2".close_run(run "of_version_2".runs, ended text, now bigint)
RETURNS "of_version_2".results[] LANGUAGE plpgsql VOLATILE AS $body$
DECLARE
    closed "of_version_2".results[] := '{}';
BEGIN
    IF run.state = 'claimed' THEN
        closed := ARRAY["of_version_2".record_lost(run, now)];
    END IF;
    UPDATE "of_version_2".runs SET
        state = ended,
        token = replace(gen_random_uuid()::text, '-', ''),
        lost = lost + (run.state = 'claimed')::integer,
        lease_until = least(lease_until, now),
        lease_ended = true
    WHERE job = run.job AND slot = run.slot;
    RETURN closed;
END
$body$;

-- Decide one claim by the claim table, its job and the job's open runs being locked.
CREATE OR REPLACE FUNCTION "of_version_2".decide(
    item "of_version_2".asked_claim, now bigint, OUT answer "of_version_2".claim_answer
) LANGUAGE plpgsql VOLATILE AS $body$
DECLARE
    run "of_version_2".runs;
    other "of_version_2".runs;
    is_claimed boolean;
    attempts integer := 0;
    losses integer := 0;
BEGIN
    answer.place := item.place;
    answer.abandoned := false;
    SELECT * INTO run FROM "of_version_2".runs WHERE job = item.job AND slot = item.slot;
    is_claimed := FOUND;

    IF NOT is_claimed THEN
        IF item.mode = 'takeover' THEN
            answer.outcome := 'none';
            RETURN;
        END IF;
        PERFORM FROM "of_version_2".jobs
        WHERE name = item.job AND pruned >= item.slot AND pruned <= now;
        IF FOUND THEN
            answer.outcome := 'done';
            RETURN;
        END IF;
        IF now - item.slot > item.max_late THEN
            answer.outcome := 'late';
            RETURN;
        END IF;
    ELSIF "of_version_2".has_ended(run) THEN
        answer.outcome := 'done';
        answer.holder := run.instance;
        RETURN;
    ELSIF "of_version_2".is_alive(run, now) THEN
        answer.attempt := run.attempt;
        IF run.token = item.token THEN
            -- The answer to an earlier try was lost. Its holder trusts the lease from this call on.
            UPDATE "of_version_2".runs SET lease_until = now + item.lease
            WHERE job = run.job AND slot = run.slot;
            answer.outcome := 'won';
            answer.fence := run.fence;
        ELSE
            answer.outcome := 'running';
            answer.holder := run.instance;
        END IF;
        RETURN;
    ELSE
        PERFORM FROM "of_version_2".runs
        WHERE job = item.job AND slot > item.slot AND slot <= now LIMIT 1;
        IF FOUND THEN
            answer.outcome := 'done';
            answer.holder := run.instance;
            answer.closed := "of_version_2".close_run(run, 'replaced', now);
            RETURN;
        END IF;
        -- An attempt that nobody released has lost its lease; it is counted once it is superseded.
        losses := run.lost + (run.state = 'claimed')::integer;
        IF losses >= item.max_attempts THEN
            answer.outcome := 'done';
            answer.holder := run.instance;
            answer.abandoned := true;
            answer.closed := "of_version_2".close_run(run, 'abandoned', now);
            RETURN;
        END IF;
        attempts := run.attempt;
    END IF;

    IF item.overlap <> 'allow' THEN
        SELECT * INTO other FROM "of_version_2".runs AS o
        WHERE o.job = item.job AND o.slot <> item.slot AND NOT o.lease_ended AND o.lease_until > now
        ORDER BY o.slot LIMIT 1;
        IF FOUND THEN
            answer.outcome := 'overlap';
            answer.holder := other.instance;
            answer.other := other.slot;
            RETURN;
        END IF;
    END IF;

    IF is_claimed AND run.state = 'claimed' THEN
        answer.closed := ARRAY["of_version_2".record_lost(run, now)];
    END IF;
    answer.outcome := 'won';
    answer.attempt := attempts + 1;
    answer.fence := nextval(E'"of_version_2".fences');
    INSERT INTO "of_version_2".runs VALUES (
        item.job, item.slot, 'claimed', item.token, answer.attempt, losses, answer.fence, NULL,
        item.instance, item.trigger, now, now + item.lease, false
    )
    ON CONFLICT (job, slot) DO UPDATE SET
        state = 'claimed', token = excluded.token, attempt = excluded.attempt,
        lost = excluded.lost, fence = excluded.fence, instance = excluded.instance,
        trigger = excluded.trigger, claimed_at = excluded.claimed_at,
        lease_until = excluded.lease_until, lease_ended = false;

    -- Leave nothing behind that another holder could still believe in: an older run is closed, and
    -- a lease that the winner takes for over is ended for everybody.
    FOR other IN
        SELECT * FROM "of_version_2".runs AS o
        WHERE o.job = item.job AND o.slot <> item.slot AND NOT "of_version_2".is_alive(o, now)
        AND (o.state IN ('claimed', 'released') OR NOT o.lease_ended)
        ORDER BY o.slot
    LOOP
        IF NOT "of_version_2".has_ended(other) AND other.slot < item.slot THEN
            answer.closed := answer.closed || "of_version_2".close_run(other, 'replaced', now);
        ELSIF item.overlap = 'skip' OR "of_version_2".has_ended(other) THEN
            UPDATE "of_version_2".runs SET lease_until = least(lease_until, now), lease_ended = true
            WHERE job = other.job AND slot = other.slot AND NOT lease_ended;
        END IF;
    END LOOP;
END
$body$;

-- When the server began, in microseconds: another one, and the same after a restart, has another.
CREATE OR REPLACE FUNCTION "of_version_2".server_started() RETURNS bigint
LANGUAGE sql STABLE AS $body$
    SELECT floor(extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint
$body$;

-- Make sure that no fence is given a second time. A server that was started since the last one was
-- given may have forgotten some: it took the place of another one that was a moment ahead of it, or
-- commits without waiting for its disk. So it goes on far above what it knows of. (One that commits
-- so and comes back from the crash of one of its processes was not started, and may give some again.)
-- Whoever is about to give a fence asks first, so that nobody draws one between the look and the
-- change.
CREATE OR REPLACE FUNCTION "of_version_2".pass_lost_fences() RETURNS void
LANGUAGE plpgsql VOLATILE AS $body$
DECLARE
    started bigint := "of_version_2".server_started();
BEGIN
    PERFORM FROM "of_version_2".meta WHERE key = 'server_started' AND value = started;
    IF FOUND THEN
        RETURN;
    END IF;
    PERFORM FROM "of_version_2".meta WHERE key = 'server_started' AND value <> started FOR UPDATE;
    IF FOUND THEN
        PERFORM setval(E'"of_version_2".fences', greatest(f.last_value + 1000000, "of_version_2".now_ms()))
        FROM "of_version_2".fences AS f;
        UPDATE "of_version_2".meta SET value = started WHERE key = 'server_started';
    END IF;
END
$body$;

-- Lock jobs and their open runs for claims, which alone make new runs; who is not known is noted.
CREATE OR REPLACE FUNCTION "of_version_2".lock_jobs(names text[], now bigint) RETURNS void
LANGUAGE plpgsql VOLATILE AS $body$
BEGIN
    INSERT INTO "of_version_2".jobs (name, schedule, first_seen, last_seen)
    SELECT n.name, '', now, now FROM unnest(names) AS n(name)
    WHERE NOT EXISTS (SELECT FROM "of_version_2".jobs AS j WHERE j.name = n.name)
    ORDER BY n.name ON CONFLICT (name) DO NOTHING;
    PERFORM FROM "of_version_2".jobs WHERE name = ANY (names) ORDER BY name FOR NO KEY UPDATE;
    PERFORM FROM "of_version_2".runs
    WHERE job = ANY (names) AND (state IN ('claimed', 'released') OR NOT lease_ended)
    ORDER BY job, slot FOR NO KEY UPDATE;
END
$body$;

-- The claims on which nothing that is in the store bears, nor another claim of the batch.
CREATE OR REPLACE FUNCTION "of_version_2".free_claims(waiting "of_version_2".asked_claim[])
RETURNS SETOF "of_version_2".asked_claim LANGUAGE sql STABLE AS $body$
    SELECT
        a.place, a.job, a.slot, a.token, a.instance, a.lease, a.overlap,
        a.max_attempts, a.max_late, a.mode, a.trigger
    FROM (
        SELECT w.*, count(*) OVER (PARTITION BY w.job) AS of_job FROM unnest(waiting) AS w
    ) AS a
    WHERE a.of_job = 1
    AND NOT EXISTS (
        SELECT FROM "of_version_2".runs AS r
        WHERE r.job = a.job AND (r.state IN ('claimed', 'released') OR NOT r.lease_ended)
    )
    AND NOT EXISTS (SELECT FROM "of_version_2".runs AS r WHERE r.job = a.job AND r.slot = a.slot)
    AND NOT EXISTS (SELECT FROM "of_version_2".jobs AS j WHERE j.name = a.job AND j.pruned >= a.slot)
$body$;

CREATE OR REPLACE FUNCTION "of_version_2".claim(
    jobs json, slots json, tokens json, instances json, leases json, overlap_rules json,
    max_attempts json, max_lates json, modes json, triggers json
) RETURNS json LANGUAGE plpgsql VOLATILE SET lock_timeout = '500ms' SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $body$
DECLARE
    asked "of_version_2".asked_claim[];
    waiting "of_version_2".asked_claim[];
    answers "of_version_2".claim_answer[];
    item "of_version_2".asked_claim;
    now bigint := "of_version_2".now_ms();
BEGIN
    asked := ARRAY(
        SELECT ROW(
            a.place, a.job, a.slot::bigint, a.token, a.instance, a.lease::bigint, a.overlap,
            a.max_attempts::integer, a.max_late::double precision, a.mode, a.trigger
        )::"of_version_2".asked_claim
        FROM ROWS FROM (
            json_array_elements_text(jobs), json_array_elements_text(slots),
            json_array_elements_text(tokens), json_array_elements_text(instances),
            json_array_elements_text(leases), json_array_elements_text(overlap_rules),
            json_array_elements_text(max_attempts), json_array_elements_text(max_lates),
            json_array_elements_text(modes), json_array_elements_text(triggers)
        ) WITH ORDINALITY AS a(
            job, slot, token, instance, lease, overlap, max_attempts, max_late, mode, trigger, place
        )
    );

    -- What a read answers. An ended run does not begin again, and one at work is as if it had come
    -- first, so these answers hold whatever else is claimed.
    answers := ARRAY(
        SELECT ROW(
            a.place,
            CASE WHEN "of_version_2".has_ended(run) THEN 'done' ELSE 'running' END,
            CASE WHEN NOT "of_version_2".has_ended(run) THEN run.attempt END,
            NULL, run.instance, NULL, false, NULL
        )::"of_version_2".claim_answer
        FROM unnest(asked) AS a
        JOIN "of_version_2".runs AS run ON run.job = a.job AND run.slot = a.slot
        WHERE "of_version_2".has_ended(run)
        OR run.token <> a.token AND "of_version_2".is_alive(run, now)
    );
    -- Nobody has a run before its time. Whose clock is right has no reason to ask.
    answers := answers || ARRAY(
        SELECT ROW(a.place, 'early', NULL, NULL, NULL, now, false, NULL)::"of_version_2".claim_answer
        FROM unnest(asked) AS a
        WHERE "of_version_2".is_early(a.slot, now) AND a.mode <> 'takeover'
        AND NOT EXISTS (
            SELECT FROM "of_version_2".runs AS r WHERE r.job = a.job AND r.slot = a.slot
        )
    );
    waiting := ARRAY(
        SELECT a::"of_version_2".asked_claim FROM unnest(asked) AS a
        WHERE a.place NOT IN (SELECT place FROM unnest(answers))
    );
    -- Nothing is open of the job and nothing was pruned, so that only the claim itself decides.
    answers := answers || ARRAY(
        SELECT ROW(
            a.place, CASE WHEN a.mode = 'takeover' THEN 'none' ELSE 'late' END,
            NULL, NULL, NULL, NULL, false, NULL
        )::"of_version_2".claim_answer
        FROM "of_version_2".free_claims(waiting) AS a
        WHERE a.mode = 'takeover' OR now - a.slot > a.max_late
    );
    IF cardinality(answers) < cardinality(asked) THEN
        waiting := ARRAY(
            SELECT a::"of_version_2".asked_claim FROM unnest(asked) AS a
            WHERE a.place NOT IN (SELECT place FROM unnest(answers))
        );
        PERFORM "of_version_2".lock_jobs(ARRAY(SELECT DISTINCT a.job FROM unnest(waiting) AS a), now);
        PERFORM "of_version_2".pass_lost_fences();
        now := "of_version_2".now_ms();

        WITH free AS MATERIALIZED (
            SELECT *, CASE
                WHEN mode <> 'takeover' AND now - slot <= max_late
                THEN nextval(E'"of_version_2".fences')
            END AS fence
            FROM (SELECT * FROM "of_version_2".free_claims(waiting) ORDER BY place) AS f
        ), won AS (
            INSERT INTO "of_version_2".runs
            SELECT
                a.job, a.slot, 'claimed', a.token, 1, 0, a.fence, NULL,
                a.instance, a.trigger, now, now + a.lease, false
            FROM free AS a WHERE a.fence IS NOT NULL
        )
        SELECT answers || array_agg(
            ROW(
                a.place,
                CASE
                    WHEN a.fence IS NOT NULL THEN 'won'
                    WHEN a.mode = 'takeover' THEN 'none'
                    ELSE 'late'
                END,
                CASE WHEN a.fence IS NOT NULL THEN 1 END,
                a.fence, NULL, NULL, false, NULL
            )::"of_version_2".claim_answer
        )
        INTO answers FROM free AS a;

        -- Claims of one job see each other in their order, as if they had come one by one.
        FOR item IN
            SELECT * FROM unnest(waiting) AS a
            WHERE a.place NOT IN (SELECT place FROM unnest(answers)) ORDER BY a.place
        LOOP
            answers := answers || "of_version_2".decide(item, now);
        END LOOP;

        -- Where rows were locked and none was changed, there is nothing that a crash could take
        -- back; and what was read had been on the disk before anybody could see it. So those that
        -- lose do not wait for the disk, one after the other, each with the row of the job locked.
        PERFORM FROM unnest(answers) AS a
        WHERE a.outcome = 'won' OR a.abandoned OR a.closed IS NOT NULL;
        IF NOT FOUND THEN
            PERFORM set_config('synchronous_commit', 'off', true);
        END IF;
    END IF;

    RETURN (
        SELECT json_build_array(
            json_agg(a.outcome ORDER BY a.place), json_agg(a.attempt ORDER BY a.place),
            json_agg(a.fence ORDER BY a.place), json_agg(a.holder ORDER BY a.place),
            json_agg(a.other ORDER BY a.place), json_agg(a.abandoned ORDER BY a.place),
            json_agg(a.closed ORDER BY a.place)
        )
        FROM unnest(answers) AS a
    );
END
$body$;

-- What the holders of runs may still do to them: all of it needs the token.
CREATE OR REPLACE FUNCTION "of_version_2".lock_runs(of_jobs text[], at_slots bigint[]) RETURNS void
LANGUAGE plpgsql VOLATILE AS $body$
BEGIN
    PERFORM FROM unnest(of_jobs, at_slots) AS a(job, slot)
    JOIN "of_version_2".runs AS r ON r.job = a.job AND r.slot = a.slot
    ORDER BY r.job, r.slot FOR NO KEY UPDATE OF r;
END
$body$;

CREATE OR REPLACE FUNCTION "of_version_2".heartbeat(jobs json, slots json, tokens json, leases json)
RETURNS json LANGUAGE plpgsql VOLATILE SET lock_timeout = '500ms' SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $body$
DECLARE
    of_jobs text[] := "of_version_2".texts(jobs);
    at_slots bigint[] := "of_version_2".texts(slots)::bigint[];
    given text[] := "of_version_2".texts(tokens);
    lengths bigint[] := "of_version_2".texts(leases)::bigint[];
    now bigint;
    answers json;
BEGIN
    PERFORM "of_version_2".lock_runs(of_jobs, at_slots);
    now := "of_version_2".now_ms();
    WITH asked AS MATERIALIZED (
        SELECT * FROM unnest(of_jobs, at_slots, given, lengths) WITH ORDINALITY
        AS a(job, slot, token, lease, place)
    ), renewed AS (
        UPDATE "of_version_2".runs AS r SET lease_until = now + a.lease FROM asked AS a
        WHERE r.job = a.job AND r.slot = a.slot AND r.token = a.token
        AND "of_version_2".is_alive(r, now)
        RETURNING r.job, r.slot, r.token
    )
    SELECT json_agg((a.job, a.slot, a.token) IN (SELECT * FROM renewed) ORDER BY a.place)
    INTO answers FROM asked AS a;
    RETURN answers;
END
$body$;

-- Record ends; the lease may be over, as long as nobody took the run. Repeated, it says the same.
CREATE OR REPLACE FUNCTION "of_version_2".finish(
    jobs json, slots json, tokens json, statuses json, keeps json, counts json
) RETURNS json LANGUAGE plpgsql VOLATILE SET lock_timeout = '500ms' SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $body$
DECLARE
    of_jobs text[] := "of_version_2".texts(jobs);
    at_slots bigint[] := "of_version_2".texts(slots)::bigint[];
    given text[] := "of_version_2".texts(tokens);
    ends text[] := "of_version_2".texts(statuses);
    kept boolean[] := "of_version_2".texts(keeps)::boolean[];
    now bigint;
    answers json;
BEGIN
    PERFORM "of_version_2".lock_runs(of_jobs, at_slots);
    now := "of_version_2".now_ms();
    WITH asked AS MATERIALIZED (
        SELECT * FROM unnest(of_jobs, at_slots, given, ends, kept) WITH ORDINALITY
        AS a(job, slot, token, status, keep_lease, place)
    ), ended AS (
        UPDATE "of_version_2".runs AS r SET
            state = CASE
                WHEN "of_version_2".has_ended(r) THEN r.state
                WHEN a.status = 'success' THEN 'success'
                ELSE 'failed'
            END,
            lease_until = CASE
                WHEN a.keep_lease OR r.lease_ended THEN r.lease_until
                ELSE least(r.lease_until, now)
            END,
            lease_ended = r.lease_ended OR NOT a.keep_lease
        FROM (
            SELECT
                job, slot, token, bool_and(keep_lease) AS keep_lease,
                (array_agg(status ORDER BY place))[1] AS status
            FROM asked GROUP BY job, slot, token
        ) AS a
        WHERE r.job = a.job AND r.slot = a.slot AND r.token = a.token
        RETURNING r.job, r.slot, r.token
    )
    SELECT json_agg((a.job, a.slot, a.token) IN (SELECT * FROM ended) ORDER BY a.place)
    INTO answers FROM asked AS a;
    RETURN answers;
END
$body$;

-- Give runs back unfinished; of one that has ended, end the kept lease and nothing else. Whoever
-- listens is told of those that can be taken over now, as soon as this is committed.
CREATE OR REPLACE FUNCTION "of_version_2".release(
    jobs json, slots json, tokens json, statuses json, keeps json, counts json
) RETURNS json LANGUAGE plpgsql VOLATILE SET lock_timeout = '500ms' SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $body$
DECLARE
    of_jobs text[] := "of_version_2".texts(jobs);
    at_slots bigint[] := "of_version_2".texts(slots)::bigint[];
    given text[] := "of_version_2".texts(tokens);
    as_lost boolean[] := "of_version_2".texts(counts)::boolean[];
    now bigint;
    answers json;
    told bigint;
BEGIN
    PERFORM "of_version_2".lock_runs(of_jobs, at_slots);
    now := "of_version_2".now_ms();
    WITH asked AS MATERIALIZED (
        SELECT * FROM unnest(of_jobs, at_slots, given, as_lost) WITH ORDINALITY
        AS a(job, slot, token, counted, place)
    ), released AS (
        UPDATE "of_version_2".runs AS r SET
            state = CASE WHEN r.state = 'claimed' THEN 'released' ELSE r.state END,
            released_fence = CASE WHEN r.state = 'claimed' THEN r.fence ELSE r.released_fence END,
            lost = r.lost + (r.state = 'claimed' AND a.counted)::integer,
            lease_until = CASE
                WHEN r.lease_ended AND r.state <> 'claimed' THEN r.lease_until
                ELSE least(r.lease_until, now)
            END,
            lease_ended = true
        FROM (
            SELECT job, slot, token, (array_agg(counted ORDER BY place))[1] AS counted
            FROM asked GROUP BY job, slot, token
        ) AS a
        WHERE r.job = a.job AND r.slot = a.slot AND r.token = a.token
        RETURNING r.job, r.slot, r.token, r.state
    ), notices AS (
        SELECT pg_notify(E'of_version_2', slot || ' ' || job) FROM released WHERE state = 'released'
    )
    SELECT
        json_agg((a.job, a.slot, a.token) IN (SELECT job, slot, token FROM released)
            ORDER BY a.place),
        (SELECT count(*) FROM notices)
    INTO answers, told FROM asked AS a;
    RETURN answers;
END
$body$;

-- The runs of these jobs that have not ended, oldest slot first.
CREATE OR REPLACE FUNCTION "of_version_2".unfinished(jobs json) RETURNS json
LANGUAGE plpgsql VOLATILE SET lock_timeout = '500ms' SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $body$
DECLARE
    of_jobs text[] := "of_version_2".texts(jobs);
    now bigint := "of_version_2".now_ms();
BEGIN
    RETURN (
        SELECT json_agg(
            json_build_array(r.job, r.slot, r.attempt, "of_version_2".is_alive(r, now))
            ORDER BY r.slot, r.job COLLATE "C"
        )
        FROM "of_version_2".runs AS r
        WHERE r.job = ANY (of_jobs) AND r.state IN ('claimed', 'released')
    );
END
$body$;

-- Note that jobs exist; when each was first seen is the answer.
CREATE OR REPLACE FUNCTION "of_version_2".declare_jobs(jobs json, schedules json) RETURNS json
LANGUAGE plpgsql VOLATILE SET lock_timeout = '500ms' SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $body$
DECLARE
    names text[] := "of_version_2".texts(jobs);
    described text[] := "of_version_2".texts(schedules);
    now bigint := "of_version_2".now_ms();
BEGIN
    INSERT INTO "of_version_2".jobs AS j (name, schedule, first_seen, last_seen)
    SELECT DISTINCT ON (a.name) a.name, a.schedule, now, now
    FROM unnest(names, described) WITH ORDINALITY AS a(name, schedule, place)
    ORDER BY a.name, a.place DESC
    ON CONFLICT (name) DO UPDATE SET schedule = excluded.schedule, last_seen = excluded.last_seen;
    RETURN (
        SELECT json_agg(j.first_seen ORDER BY a.place)
        FROM unnest(names) WITH ORDINALITY AS a(name, place)
        JOIN "of_version_2".jobs AS j ON j.name = a.name
    );
END
$body$;

-- Add records of holders that may still record their attempt: it is the run's latest and nobody
-- closed it, or it was released. An earlier attempt without a record was released too: of one that
-- was lost there is a record.
CREATE OR REPLACE FUNCTION "of_version_2".save_results(
    fences json, jobs json, slots json, attempts json, instances json, triggers json,
    statuses json, started json, ended json, errors json
) RETURNS void LANGUAGE plpgsql VOLATILE SET lock_timeout = '500ms' SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $body$
BEGIN
    INSERT INTO "of_version_2".results
    SELECT
        a.fence::bigint, a.job, a.slot::bigint, a.attempt::integer, a.instance, a.trigger, a.status,
        a.started::bigint, a.ended::bigint, a.error
    FROM ROWS FROM (
        json_array_elements_text(fences), json_array_elements_text(jobs),
        json_array_elements_text(slots), json_array_elements_text(attempts),
        json_array_elements_text(instances), json_array_elements_text(triggers),
        json_array_elements_text(statuses), json_array_elements_text(started),
        json_array_elements_text(ended), json_array_elements_text(errors)
    ) AS a(fence, job, slot, attempt, instance, trigger, status, started, ended, error)
    JOIN "of_version_2".runs AS r ON r.job = a.job AND r.slot = a.slot::bigint
    WHERE a.fence::bigint < r.fence OR a.fence::bigint = r.released_fence
    OR a.fence::bigint = r.fence AND r.state NOT IN ('abandoned', 'replaced')
    ORDER BY a.fence::bigint
    ON CONFLICT (fence) DO NOTHING;
END
$body$;

-- Records, newest first: at most so many of those before a fence, of one job or of all.
CREATE OR REPLACE FUNCTION "of_version_2".history(of_job text, before bigint, most bigint) RETURNS json
LANGUAGE plpgsql VOLATILE SET lock_timeout = '500ms' SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $body$
BEGIN
    IF of_job IS NULL THEN
        RETURN (
            SELECT json_agg(json_build_array(
                r.fence, r.job, r.slot, r.attempt, r.instance, r.trigger, r.status, r.started_at,
                r.ended_at, r.error
            ) ORDER BY r.fence DESC) FROM (
                SELECT * FROM "of_version_2".results AS f WHERE f.fence < before
                ORDER BY f.fence DESC LIMIT most
            ) AS r
        );
    END IF;
    RETURN (
        SELECT json_agg(json_build_array(
                r.fence, r.job, r.slot, r.attempt, r.instance, r.trigger, r.status, r.started_at,
                r.ended_at, r.error
            ) ORDER BY r.fence DESC) FROM (
            SELECT * FROM "of_version_2".results AS f WHERE f.job = of_job AND f.fence < before
            ORDER BY f.fence DESC LIMIT most
        ) AS r
    );
END
$body$;

-- Rows of runs that can decide nothing any more: not the newest of the job, and both the slot and
-- the end of the lease long past.
CREATE OR REPLACE FUNCTION "of_version_2".old_runs(
    names text[], keeps double precision[], now bigint, most bigint
) RETURNS SETOF "of_version_2".runs LANGUAGE sql STABLE AS $body$
    SELECT o.* FROM unnest(names, keeps) AS a(job, keep)
    CROSS JOIN LATERAL (
        SELECT r.* FROM "of_version_2".runs AS r
        WHERE r.job = a.job AND r.slot < now - a.keep
        AND r.slot < (SELECT max(b.slot) FROM "of_version_2".runs AS b WHERE b.job = a.job)
        AND NOT "of_version_2".is_alive(r, now)
        AND greatest(r.slot, r.lease_until) + a.keep < now
        ORDER BY r.slot LIMIT most
    ) AS o
    LIMIT most
$body$;

-- Remove what need not be kept of some jobs, at most so many rows; true where some are left.
CREATE OR REPLACE FUNCTION "of_version_2".prune(
    jobs json, runs_kept json, records_kept json, ages json, most_records bigint, room bigint
) RETURNS json LANGUAGE plpgsql VOLATILE SET lock_timeout = '500ms' SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $body$
DECLARE
    names text[] := "of_version_2".texts(jobs);
    keeps double precision[] := "of_version_2".texts(runs_kept)::double precision[];
    records bigint[] := "of_version_2".texts(records_kept)::bigint[];
    limits double precision[] := "of_version_2".texts(ages)::double precision[];
    now bigint := "of_version_2".now_ms();
    found text[];
    old "of_version_2".runs[];
    old_fences bigint[];
    removed bigint;
BEGIN
    found := ARRAY(
        SELECT DISTINCT o.job FROM "of_version_2".old_runs(names, keeps, now, room + 1) AS o
    );
    PERFORM "of_version_2".lock_jobs(found, now);
    now := "of_version_2".now_ms();
    -- Looked for again: a run may have been taken over until its job was locked.
    old := ARRAY(
        SELECT o::"of_version_2".runs FROM "of_version_2".old_runs(names, keeps, now, room + 1) AS o
        WHERE o.job = ANY (found)
    );
    removed := cardinality(old);
    old := old[:room];
    PERFORM "of_version_2".record_lost(o::"of_version_2".runs, now) FROM unnest(old) AS o
    WHERE o.state = 'claimed';
    DELETE FROM "of_version_2".runs AS r USING unnest(old) AS o
    WHERE r.job = o.job AND r.slot = o.slot;
    UPDATE "of_version_2".jobs AS j SET pruned = greatest(j.pruned, o.newest)
    FROM (SELECT job, max(slot) AS newest FROM unnest(old) GROUP BY job) AS o
    WHERE j.name = o.job;

    IF removed > room THEN
        RETURN to_json(true);
    END IF;
    room := room - removed;
    old_fences := ARRAY(
        SELECT f.fence FROM unnest(names, records, limits) AS a(job, kept, age)
        CROSS JOIN LATERAL (
            SELECT r.fence FROM "of_version_2".results AS r
            WHERE r.job = a.job
            AND r.fence <= (
                SELECT b.fence FROM "of_version_2".results AS b WHERE b.job = a.job
                ORDER BY b.fence DESC LIMIT 1 OFFSET least(a.kept, most_records)
            )
            AND (
                r.ended_at < now - a.age OR r.fence <= (
                    SELECT b.fence FROM "of_version_2".results AS b WHERE b.job = a.job
                    ORDER BY b.fence DESC LIMIT 1 OFFSET most_records
                )
            )
            ORDER BY r.fence LIMIT room + 1
        ) AS f
        LIMIT room + 1
    );
    DELETE FROM "of_version_2".results WHERE fence = ANY (old_fences[:room]);
    RETURN to_json(cardinality(old_fences) > room);
END
$body$;

-- What another store hands over: kept where it is not there yet, and a second time without effect.
CREATE OR REPLACE FUNCTION "of_version_2".raise_fences(next_fence json) RETURNS void
LANGUAGE plpgsql VOLATILE SET lock_timeout = '500ms' SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $body$
BEGIN
    PERFORM "of_version_2".pass_lost_fences(); -- or that of a claim would take this one back
    -- Far above, since others may draw numbers between the look and the change.
    PERFORM setval(E'"of_version_2".fences', (next_fence #>> '{}')::bigint + 1000000, false)
    FROM "of_version_2".fences AS f
    WHERE f.last_value < (next_fence #>> '{}')::bigint;
END
$body$;

CREATE OR REPLACE FUNCTION "of_version_2".absorb_jobs(
    names json, schedules json, first json, latest json, marks json
) RETURNS json LANGUAGE plpgsql VOLATILE SET lock_timeout = '500ms' SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $body$
DECLARE
    added bigint;
BEGIN
    SELECT count(*) INTO added FROM unnest("of_version_2".texts(names)) AS a(name)
    WHERE NOT EXISTS (SELECT FROM "of_version_2".jobs AS j WHERE j.name = a.name);
    INSERT INTO "of_version_2".jobs AS j (name, schedule, first_seen, last_seen, pruned)
    SELECT a.name, a.schedule, a.first::bigint, a.latest::bigint, a.mark::bigint
    FROM ROWS FROM (
        json_array_elements_text(names), json_array_elements_text(schedules),
        json_array_elements_text(first), json_array_elements_text(latest),
        json_array_elements_text(marks)
    ) AS a(name, schedule, first, latest, mark)
    ORDER BY a.name
    ON CONFLICT (name) DO UPDATE SET
        first_seen = least(j.first_seen, excluded.first_seen),
        pruned = greatest(j.pruned, excluded.pruned);
    RETURN to_json(added);
END
$body$;

CREATE OR REPLACE FUNCTION "of_version_2".absorb_runs(
    jobs json, slots json, states json, tokens json, attempts json, losses json, fences json,
    released_fences json, instances json, triggers json, claimed json, leases json, ends json
) RETURNS json LANGUAGE plpgsql VOLATILE SET lock_timeout = '500ms' SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $body$
DECLARE
    added bigint;
BEGIN
    PERFORM "of_version_2".lock_jobs(
        ARRAY(SELECT DISTINCT j FROM unnest("of_version_2".texts(jobs)) AS j), "of_version_2".now_ms()
    );
    INSERT INTO "of_version_2".runs
    SELECT
        a.job, a.slot::bigint, a.state, a.token, a.attempt::integer, a.lost::integer,
        a.fence::bigint, a.released_fence::bigint, a.instance, a.trigger, a.claimed_at::bigint,
        a.lease_until::bigint, a.lease_ended::boolean
    FROM ROWS FROM (
        json_array_elements_text(jobs), json_array_elements_text(slots),
        json_array_elements_text(states), json_array_elements_text(tokens),
        json_array_elements_text(attempts), json_array_elements_text(losses),
        json_array_elements_text(fences), json_array_elements_text(released_fences),
        json_array_elements_text(instances), json_array_elements_text(triggers),
        json_array_elements_text(claimed), json_array_elements_text(leases),
        json_array_elements_text(ends)
    ) AS a(
        job, slot, state, token, attempt, lost, fence, released_fence, instance, trigger,
        claimed_at, lease_until, lease_ended
    )
    ORDER BY a.job, a.slot::bigint
    ON CONFLICT (job, slot) DO NOTHING;
    GET DIAGNOSTICS added = ROW_COUNT;
    RETURN to_json(added);
END
$body$;

-- Two sources may have given the same fences, of which a store can keep one record each: so how many
-- are of other attempts than what has their place is answered too.
CREATE OR REPLACE FUNCTION "of_version_2".absorb_results(
    fences json, jobs json, slots json, attempts json, instances json, triggers json,
    statuses json, started json, ended json, errors json
) RETURNS json LANGUAGE plpgsql VOLATILE SET lock_timeout = '500ms' SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $body$
DECLARE
    added bigint;
    clashing bigint;
BEGIN
    INSERT INTO "of_version_2".results
    SELECT
        a.fence::bigint, a.job, a.slot::bigint, a.attempt::integer, a.instance, a.trigger, a.status,
        a.started::bigint, a.ended::bigint, a.error
    FROM ROWS FROM (
        json_array_elements_text(fences), json_array_elements_text(jobs),
        json_array_elements_text(slots), json_array_elements_text(attempts),
        json_array_elements_text(instances), json_array_elements_text(triggers),
        json_array_elements_text(statuses), json_array_elements_text(started),
        json_array_elements_text(ended), json_array_elements_text(errors)
    ) AS a(fence, job, slot, attempt, instance, trigger, status, started, ended, error)
    ORDER BY a.fence::bigint
    ON CONFLICT (fence) DO NOTHING;
    GET DIAGNOSTICS added = ROW_COUNT;
    SELECT count(*) INTO clashing FROM ROWS FROM (
        json_array_elements_text(fences), json_array_elements_text(jobs),
        json_array_elements_text(slots), json_array_elements_text(attempts)
    ) AS a(fence, job, slot, attempt)
    JOIN "of_version_2".results AS r ON r.fence = a.fence::bigint
    WHERE (r.job, r.slot, r.attempt) <> (a.job, a.slot::bigint, a.attempt::integer);
    RETURN json_build_array(added, clashing);
END
$body$;
INSERT INTO "of_version_2".meta
VALUES ('schema_version', 2), ('server_started', "of_version_2".server_started());
COMMIT;
