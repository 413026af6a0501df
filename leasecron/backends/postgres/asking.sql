-- Runs that somebody asks for: they wait until an instance begins them.
CREATE OR REPLACE FUNCTION {schema}.add_runs(
    jobs json, slots json, instances json, triggers json
) RETURNS json LANGUAGE plpgsql VOLATILE {settings} AS $body$
DECLARE
    of_jobs text[] := {schema}.texts(jobs);
    at_slots bigint[] := {schema}.texts(slots)::bigint[];
    askers text[] := {schema}.texts(instances);
    reasons text[] := {schema}.texts(triggers);
    now bigint := {schema}.now_ms();
    answers json;
    told bigint;
BEGIN
    PERFORM {schema}.lock_jobs(ARRAY(SELECT DISTINCT j FROM unnest(of_jobs) AS j), now);
    now := {schema}.now_ms();
    WITH asked AS MATERIALIZED (
        SELECT * FROM unnest(of_jobs, at_slots, askers, reasons) WITH ORDINALITY
        AS a(job, slot, instance, trigger, place)
    ), added AS (
        INSERT INTO {schema}.runs
        SELECT DISTINCT ON (a.job, a.slot)
            a.job, a.slot, 'released', '', 0, 0, 0, NULL::bigint, a.instance, a.trigger, now, now,
            true, 0, {schema}.origin_of(a.trigger), false
        FROM asked AS a ORDER BY a.job, a.slot, a.place
        ON CONFLICT (job, slot) DO NOTHING
        RETURNING job, slot, instance
    ), notices AS (
        SELECT pg_notify({channel}, slot || ' ' || job) FROM added
    )
    SELECT
        json_agg(
            (a.job, a.slot, a.instance) IN (SELECT job, slot, instance FROM added) OR EXISTS (
                -- Who has begun it stands in the place of whoever asked for it.
                SELECT FROM {schema}.runs AS r
                WHERE r.job = a.job AND r.slot = a.slot AND r.origin <> 'scheduled'
                AND (r.attempt > 0 OR r.instance = a.instance)
            ) ORDER BY a.place
        ),
        (SELECT count(*) FROM notices)
    INTO answers, told FROM asked AS a;
    RETURN answers;
END
$body$;

-- Take back runs that nobody has begun.
CREATE OR REPLACE FUNCTION {schema}.withdraw(jobs json, slots json) RETURNS json
LANGUAGE plpgsql VOLATILE {settings} AS $body$
DECLARE
    of_jobs text[] := {schema}.texts(jobs);
    at_slots bigint[] := {schema}.texts(slots)::bigint[];
    answers json;
BEGIN
    PERFORM {schema}.lock_runs(of_jobs, at_slots);
    WITH asked AS MATERIALIZED (
        SELECT *, row_number() OVER (PARTITION BY job, slot ORDER BY place) AS times
        FROM unnest(of_jobs, at_slots) WITH ORDINALITY AS a(job, slot, place)
    ), gone AS (
        DELETE FROM {schema}.runs AS r USING asked AS a
        WHERE r.job = a.job AND r.slot = a.slot AND r.attempt = 0 AND r.origin <> 'scheduled'
        RETURNING r.job, r.slot
    )
    SELECT json_agg(
        a.times = 1 AND (a.job, a.slot) IN (SELECT job, slot FROM gone) ORDER BY a.place
    )
    INTO answers FROM asked AS a;
    RETURN answers;
END
$body$;
