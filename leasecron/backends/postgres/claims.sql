-- When the server began, in microseconds: another one, and the same after a restart, has another.
CREATE OR REPLACE FUNCTION {schema}.server_started() RETURNS bigint
LANGUAGE sql STABLE AS $body$
    SELECT floor(extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint
$body$;

-- Make sure that no fence is given a second time. A server that was started since the last one was
-- given may have forgotten some: it took the place of another one that was a moment ahead of it, or
-- commits without waiting for its disk. So it goes on far above what it knows of. (One that commits
-- so and comes back from the crash of one of its processes was not started, and may give some again.)
-- Whoever is about to give a fence asks first, so that nobody draws one between the look and the
-- change.
CREATE OR REPLACE FUNCTION {schema}.pass_lost_fences() RETURNS void
LANGUAGE plpgsql VOLATILE AS $body$
DECLARE
    started bigint := {schema}.server_started();
BEGIN
    PERFORM FROM {schema}.meta WHERE key = 'server_started' AND value = started;
    IF FOUND THEN
        RETURN;
    END IF;
    PERFORM FROM {schema}.meta WHERE key = 'server_started' AND value <> started FOR UPDATE;
    IF FOUND THEN
        PERFORM setval({fences}, greatest(f.last_value + 1000000, {schema}.now_ms()))
        FROM {schema}.fences AS f;
        UPDATE {schema}.meta SET value = started WHERE key = 'server_started';
    END IF;
END
$body$;

-- Lock the rows of jobs; a job that is not known is noted.
CREATE OR REPLACE FUNCTION {schema}.lock_rows_of_jobs(names text[], now bigint) RETURNS void
LANGUAGE plpgsql VOLATILE AS $body$
BEGIN
    INSERT INTO {schema}.jobs (name, schedule, first_seen, last_seen)
    SELECT n.name, '', now, 0 FROM unnest(names) AS n(name)
    WHERE NOT EXISTS (SELECT FROM {schema}.jobs AS j WHERE j.name = n.name)
    ORDER BY n.name ON CONFLICT (name) DO NOTHING;
    PERFORM FROM {schema}.jobs WHERE name = ANY (names) ORDER BY name FOR NO KEY UPDATE;
END
$body$;

-- Lock jobs and their open runs for whoever makes new runs.
CREATE OR REPLACE FUNCTION {schema}.lock_jobs(names text[], now bigint) RETURNS void
LANGUAGE plpgsql VOLATILE AS $body$
BEGIN
    PERFORM {schema}.lock_rows_of_jobs(names, now);
    PERFORM FROM {schema}.runs
    WHERE job = ANY (names) AND (state IN ('claimed', 'released') OR NOT lease_ended)
    ORDER BY job, slot FOR NO KEY UPDATE;
END
$body$;

-- The claims on which nothing that is in the store bears, nor another claim of the batch.
CREATE OR REPLACE FUNCTION {schema}.free_claims(waiting {schema}.asked_claim[])
RETURNS SETOF {schema}.asked_claim LANGUAGE sql STABLE AS $body$
    SELECT
        a.place, a.job, a.slot, a.token, a.instance, a.lease, a.overlap,
        a.max_attempts, a.max_late, a.mode, a.trigger, a.pause_on_failure
    FROM (
        SELECT w.*, count(*) OVER (PARTITION BY w.job) AS of_job FROM unnest(waiting) AS w
    ) AS a
    WHERE a.of_job = 1
    AND NOT EXISTS (
        SELECT FROM {schema}.runs AS r
        WHERE r.job = a.job AND (r.state IN ('claimed', 'released') OR NOT r.lease_ended)
    )
    AND NOT EXISTS (SELECT FROM {schema}.runs AS r WHERE r.job = a.job AND r.slot = a.slot)
    AND NOT EXISTS (
        SELECT FROM {schema}.jobs AS j WHERE j.name = a.job
        AND (j.pruned >= a.slot OR j.paused_until >= a.slot AND a.mode = 'claim')
    )
$body$;

-- The places of claims that a pause answers: of a run that is new, or one that could go on.
CREATE OR REPLACE FUNCTION {schema}.paused_claims(waiting {schema}.asked_claim[], now bigint)
RETURNS SETOF bigint LANGUAGE sql STABLE AS $body$
    SELECT a.place FROM unnest(waiting) AS a
    JOIN {schema}.jobs AS j ON j.name = a.job
    LEFT JOIN {schema}.runs AS r ON r.job = a.job AND r.slot = a.slot
    WHERE j.paused_until >= a.slot AND CASE
        WHEN r.job IS NULL THEN
            a.mode = 'claim' AND {schema}.is_paused_at(j, a.slot)
            AND NOT coalesce(j.pruned >= a.slot AND j.pruned <= now, false)
        ELSE
            {schema}.is_paused(j)
            AND NOT {schema}.has_ended(r) AND NOT {schema}.is_alive(r, now)
            AND {schema}.losses_of(r) < a.max_attempts AND NOT {schema}.is_replaced(r, now)
    END
$body$;

CREATE OR REPLACE FUNCTION {schema}.claim(
    jobs json, slots json, tokens json, instances json, leases json, overlap_rules json,
    max_attempts json, max_lates json, modes json, triggers json, pauses_on_failure json
) RETURNS json LANGUAGE plpgsql VOLATILE {settings} AS $body$
DECLARE
    asked {schema}.asked_claim[];
    waiting {schema}.asked_claim[];
    answers {schema}.claim_answer[];
    item {schema}.asked_claim;
    now bigint := {schema}.now_ms();
BEGIN
    asked := ARRAY(
        SELECT ROW(
            a.place, a.job, a.slot::bigint, a.token, a.instance, a.lease::bigint, a.overlap,
            a.max_attempts::integer, a.max_late::double precision, a.mode, a.trigger,
            a.pause_on_failure::boolean
        )::{schema}.asked_claim
        FROM ROWS FROM (
            json_array_elements_text(jobs), json_array_elements_text(slots),
            json_array_elements_text(tokens), json_array_elements_text(instances),
            json_array_elements_text(leases), json_array_elements_text(overlap_rules),
            json_array_elements_text(max_attempts), json_array_elements_text(max_lates),
            json_array_elements_text(modes), json_array_elements_text(triggers),
            json_array_elements_text(pauses_on_failure)
        ) WITH ORDINALITY AS a(
            job, slot, token, instance, lease, overlap, max_attempts, max_late, mode, trigger,
            pause_on_failure, place
        )
    );

    -- What a read answers. An ended run does not begin again, and one at work is as if it had come
    -- first, so these answers hold whatever else is claimed.
    answers := ARRAY(
        SELECT ROW(
            a.place,
            CASE WHEN {schema}.has_ended(run) THEN 'done' ELSE 'running' END,
            CASE WHEN NOT {schema}.has_ended(run) THEN run.attempt END,
            NULL, run.instance, NULL, false, NULL, NULL, NULL
        )::{schema}.claim_answer
        FROM unnest(asked) AS a
        JOIN {schema}.runs AS run ON run.job = a.job AND run.slot = a.slot
        WHERE {schema}.has_ended(run)
        OR run.token <> a.token AND {schema}.is_alive(run, now)
    );
    -- Nobody has a run before its time. Whose clock is right has no reason to ask.
    answers := answers || ARRAY(
        SELECT ROW(
            a.place, 'early', NULL, NULL, NULL, now, false, NULL, NULL, NULL
        )::{schema}.claim_answer
        FROM unnest(asked) AS a
        WHERE {schema}.is_early(a.slot, now) AND a.mode <> 'takeover'
        AND NOT EXISTS (
            SELECT FROM {schema}.runs AS r WHERE r.job = a.job AND r.slot = a.slot
        )
    );
    waiting := asked;
    IF cardinality(answers) > 0 THEN
        waiting := ARRAY(
            SELECT a::{schema}.asked_claim FROM unnest(asked) AS a
            WHERE a.place NOT IN (SELECT place FROM unnest(answers))
        );
    END IF;
    -- Nothing is open of the job, and nothing was pruned or paused, so that only the claim itself
    -- decides.
    answers := answers || ARRAY(
        SELECT ROW(
            a.place, CASE WHEN a.mode = 'takeover' THEN 'none' ELSE 'late' END,
            NULL, NULL, NULL, NULL, false, NULL, NULL, NULL
        )::{schema}.claim_answer
        FROM {schema}.free_claims(waiting) AS a
        WHERE a.mode = 'takeover' OR now - a.slot > a.max_late
    );
    PERFORM FROM {schema}.pauses LIMIT 1; -- in most stores nothing was paused of late
    IF FOUND THEN
        answers := answers || ARRAY(
            SELECT ROW(
                p.place, 'paused', NULL, NULL, NULL, NULL, false, NULL, NULL, NULL
            )::{schema}.claim_answer
            FROM {schema}.paused_claims(waiting, now) AS p(place)
            WHERE p.place NOT IN (SELECT place FROM unnest(answers))
        );
    END IF;
    IF cardinality(answers) < cardinality(asked) THEN
        IF cardinality(answers) > 0 THEN
            waiting := ARRAY(
                SELECT a::{schema}.asked_claim FROM unnest(asked) AS a
                WHERE a.place NOT IN (SELECT place FROM unnest(answers))
            );
        END IF;
        PERFORM {schema}.lock_jobs(ARRAY(SELECT DISTINCT a.job FROM unnest(waiting) AS a), now);
        PERFORM {schema}.pass_lost_fences();
        now := {schema}.now_ms();

        WITH free AS MATERIALIZED (
            SELECT *, CASE
                WHEN mode <> 'takeover' AND now - slot <= max_late
                THEN nextval({fences})
            END AS fence
            FROM (SELECT * FROM {schema}.free_claims(waiting) ORDER BY place) AS f
        ), won AS (
            INSERT INTO {schema}.runs
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
                a.fence, NULL, NULL, false, NULL, NULL, NULL
            )::{schema}.claim_answer
        )
        INTO answers FROM free AS a;

        -- Claims of one job see each other in their order, as if they had come one by one.
        FOR item IN
            SELECT * FROM unnest(waiting) AS a
            WHERE a.place NOT IN (SELECT place FROM unnest(answers)) ORDER BY a.place
        LOOP
            answers := answers || {schema}.decide(item, now);
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
            json_agg(a.other ORDER BY a.place),
            json_agg(CASE
                WHEN a.closed IS NOT NULL OR a.retries > 0 OR a.trigger IS NOT NULL
                THEN json_build_array(a.closed, a.abandoned, coalesce(a.retries, 0), a.trigger)
            END ORDER BY a.place)
        )
        FROM unnest(answers) AS a
    );
END
$body$;
