-- What the holders of runs may still do to them: all of it needs the token.
CREATE OR REPLACE FUNCTION {schema}.lock_runs(of_jobs text[], at_slots bigint[]) RETURNS void
LANGUAGE plpgsql VOLATILE AS $body$
BEGIN
    PERFORM FROM unnest(of_jobs, at_slots) AS a(job, slot)
    JOIN {schema}.runs AS r ON r.job = a.job AND r.slot = a.slot
    ORDER BY r.job, r.slot FOR NO KEY UPDATE OF r;
END
$body$;

-- The answers are 0 for lost, 1 for renewed, 2 where the run has to make way for a newer one too.
CREATE OR REPLACE FUNCTION {schema}.heartbeat(jobs json, slots json, tokens json, leases json)
RETURNS json LANGUAGE plpgsql VOLATILE {settings} AS $body$
DECLARE
    of_jobs text[] := {schema}.texts(jobs);
    at_slots bigint[] := {schema}.texts(slots)::bigint[];
    given text[] := {schema}.texts(tokens);
    lengths bigint[] := {schema}.texts(leases)::bigint[];
    now bigint;
    answers json;
BEGIN
    PERFORM {schema}.lock_runs(of_jobs, at_slots);
    now := {schema}.now_ms();
    WITH asked AS MATERIALIZED (
        SELECT * FROM unnest(of_jobs, at_slots, given, lengths) WITH ORDINALITY
        AS a(job, slot, token, lease, place)
    ), renewed AS (
        UPDATE {schema}.runs AS r SET lease_until = now + a.lease FROM asked AS a
        WHERE r.job = a.job AND r.slot = a.slot AND r.token = a.token
        AND {schema}.is_alive(r, now)
        RETURNING r.job, r.slot, r.token, r.cancelled
    )
    SELECT json_agg(
        CASE
            WHEN (a.job, a.slot, a.token) IN (SELECT job, slot, token FROM renewed WHERE cancelled)
            THEN 2
            WHEN (a.job, a.slot, a.token) IN (SELECT job, slot, token FROM renewed)
            THEN 1
            ELSE 0
        END ORDER BY a.place
    )
    INTO answers FROM asked AS a;
    RETURN answers;
END
$body$;

-- Keep how often runs that are held are tried again.
CREATE OR REPLACE FUNCTION {schema}.retry(jobs json, slots json, tokens json, counts json)
RETURNS json LANGUAGE plpgsql VOLATILE {settings} AS $body$
DECLARE
    of_jobs text[] := {schema}.texts(jobs);
    at_slots bigint[] := {schema}.texts(slots)::bigint[];
    given text[] := {schema}.texts(tokens);
    times integer[] := {schema}.texts(counts)::integer[];
    now bigint;
    answers json;
BEGIN
    PERFORM {schema}.lock_runs(of_jobs, at_slots);
    now := {schema}.now_ms();
    WITH asked AS MATERIALIZED (
        SELECT * FROM unnest(of_jobs, at_slots, given, times) WITH ORDINALITY
        AS a(job, slot, token, retries, place)
    ), noted AS (
        UPDATE {schema}.runs AS r SET retries = greatest(r.retries, a.retries)
        FROM (
            SELECT job, slot, token, max(retries) AS retries FROM asked GROUP BY job, slot, token
        ) AS a
        WHERE r.job = a.job AND r.slot = a.slot AND r.token = a.token
        AND r.state = 'claimed' AND {schema}.is_alive(r, now)
        RETURNING r.job, r.slot, r.token
    )
    SELECT json_agg((a.job, a.slot, a.token) IN (SELECT * FROM noted) ORDER BY a.place)
    INTO answers FROM asked AS a;
    RETURN answers;
END
$body$;

-- Pause the jobs of runs that now end as failed, each by the first of those that ask for it.
CREATE OR REPLACE FUNCTION {schema}.pause_failed(
    of_jobs text[], at_slots bigint[], given text[], ends text[], notes text[], now bigint
) RETURNS void LANGUAGE sql VOLATILE AS $body$
    SELECT {schema}.begin_pause(f.job, f.note, now) FROM (
        SELECT DISTINCT ON (e.job) e.* FROM (
            SELECT DISTINCT ON (a.job, a.slot, a.token) a.*
            FROM unnest(of_jobs, at_slots, given, ends, notes) WITH ORDINALITY
            AS a(job, slot, token, status, note, place)
            ORDER BY a.job, a.slot, a.token, a.place
        ) AS e
        JOIN {schema}.runs AS r ON r.job = e.job AND r.slot = e.slot AND r.token = e.token
        WHERE NOT {schema}.has_ended(r) AND e.note IS NOT NULL
        AND e.status NOT IN ('success', 'interrupted')
        ORDER BY e.job, e.place
    ) AS f
$body$;

-- Record ends; the lease may be over, as long as nobody took the run. Repeated, it says the same.
CREATE OR REPLACE FUNCTION {schema}.finish(
    jobs json, slots json, tokens json, statuses json, keeps json, counts json,
    pauses json DEFAULT '[]'
) RETURNS json LANGUAGE plpgsql VOLATILE {settings} AS $body$
DECLARE
    of_jobs text[] := {schema}.texts(jobs);
    at_slots bigint[] := {schema}.texts(slots)::bigint[];
    given text[] := {schema}.texts(tokens);
    ends text[] := {schema}.texts(statuses);
    kept boolean[] := {schema}.texts(keeps)::boolean[];
    notes text[] := {schema}.texts(pauses);
    pausing text[];
    now bigint;
    answers json;
BEGIN
    pausing := ARRAY(
        SELECT a.job FROM unnest(of_jobs, notes) AS a(job, note) WHERE a.note IS NOT NULL
    );
    IF cardinality(pausing) > 0 THEN
        PERFORM FROM {schema}.jobs WHERE name = ANY (pausing) ORDER BY name FOR NO KEY UPDATE;
    END IF;
    PERFORM {schema}.lock_runs(of_jobs, at_slots);
    now := {schema}.now_ms();
    IF cardinality(pausing) > 0 THEN
        PERFORM {schema}.pause_failed(of_jobs, at_slots, given, ends, notes, now);
    END IF;
    WITH asked AS MATERIALIZED (
        SELECT * FROM unnest(of_jobs, at_slots, given, ends, kept) WITH ORDINALITY
        AS a(job, slot, token, status, keep_lease, place)
    ), ended AS (
        UPDATE {schema}.runs AS r SET
            state = CASE
                WHEN {schema}.has_ended(r) THEN r.state
                WHEN a.status = 'success' THEN 'success'
                WHEN a.status = 'interrupted' THEN 'replaced'
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
CREATE OR REPLACE FUNCTION {schema}.release(
    jobs json, slots json, tokens json, statuses json, keeps json, counts json
) RETURNS json LANGUAGE plpgsql VOLATILE {settings} AS $body$
DECLARE
    of_jobs text[] := {schema}.texts(jobs);
    at_slots bigint[] := {schema}.texts(slots)::bigint[];
    given text[] := {schema}.texts(tokens);
    as_lost boolean[] := {schema}.texts(counts)::boolean[];
    now bigint;
    answers json;
    told bigint;
BEGIN
    PERFORM {schema}.lock_runs(of_jobs, at_slots);
    now := {schema}.now_ms();
    WITH asked AS MATERIALIZED (
        SELECT * FROM unnest(of_jobs, at_slots, given, as_lost) WITH ORDINALITY
        AS a(job, slot, token, counted, place)
    ), released AS (
        UPDATE {schema}.runs AS r SET
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
        SELECT pg_notify({channel}, slot || ' ' || job) FROM released WHERE state = 'released'
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
CREATE OR REPLACE FUNCTION {schema}.unfinished(jobs json) RETURNS json
LANGUAGE plpgsql VOLATILE {settings} AS $body$
DECLARE
    of_jobs text[] := {schema}.texts(jobs);
    now bigint := {schema}.now_ms();
BEGIN
    RETURN (
        SELECT json_agg(
            json_build_array(r.job, r.slot, r.attempt, {schema}.is_alive(r, now), r.origin)
            ORDER BY r.slot, r.job COLLATE "C"
        )
        FROM {schema}.runs AS r
        WHERE r.job = ANY (of_jobs) AND r.state IN ('claimed', 'released')
    );
END
$body$;

-- The runs that were asked for and have not ended, of all jobs, oldest slot first.
CREATE OR REPLACE FUNCTION {schema}.asked_for() RETURNS json
LANGUAGE plpgsql VOLATILE {settings} AS $body$
DECLARE
    now bigint := {schema}.now_ms();
BEGIN
    RETURN (
        SELECT json_agg(
            json_build_array(r.job, r.slot, r.attempt, {schema}.is_alive(r, now), r.origin)
            ORDER BY r.slot, r.job COLLATE "C"
        )
        FROM {schema}.runs AS r
        WHERE r.origin <> 'scheduled' AND r.state IN ('claimed', 'released')
    );
END
$body$;

-- Note that jobs exist; when each was first seen is the answer.
CREATE OR REPLACE FUNCTION {schema}.declare_jobs(jobs json, schedules json) RETURNS json
LANGUAGE plpgsql VOLATILE {settings} AS $body$
DECLARE
    names text[] := {schema}.texts(jobs);
    described text[] := {schema}.texts(schedules);
    now bigint := {schema}.now_ms();
BEGIN
    INSERT INTO {schema}.jobs AS j (name, schedule, first_seen, last_seen)
    SELECT DISTINCT ON (a.name) a.name, a.schedule, now, now
    FROM unnest(names, described) WITH ORDINALITY AS a(name, schedule, place)
    ORDER BY a.name, a.place DESC
    ON CONFLICT (name) DO UPDATE SET
        schedule = excluded.schedule, last_seen = excluded.last_seen,
        first_seen = CASE WHEN j.last_seen = 0 THEN excluded.first_seen ELSE j.first_seen END;
    RETURN (
        SELECT json_agg(j.first_seen ORDER BY a.place)
        FROM unnest(names) WITH ORDINALITY AS a(name, place)
        JOIN {schema}.jobs AS j ON j.name = a.name
    );
END
$body$;
