-- Pauses of jobs. Whoever changes them holds the row of the job, in which the claims that come
-- after him find out.
CREATE OR REPLACE FUNCTION {schema}.is_paused(of_job {schema}.jobs) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $body$
    SELECT coalesce(of_job.paused_until = 9223372036854775807, false)
$body$;

-- A pause that lasts is one for all slots that nobody has begun, those before it as well.
CREATE OR REPLACE FUNCTION {schema}.is_paused_at(of_job {schema}.jobs, at_slot bigint)
RETURNS boolean LANGUAGE sql STABLE AS $body$
    SELECT {schema}.is_paused(of_job) OR coalesce(of_job.paused_until >= at_slot, false)
    AND EXISTS (
        SELECT FROM {schema}.pauses AS p
        WHERE p.job = of_job.name AND at_slot BETWEEN p.paused_at AND p.resumed_at
    )
$body$;

CREATE OR REPLACE FUNCTION {schema}.note_pauses(names text[]) RETURNS void
LANGUAGE sql VOLATILE AS $body$
    UPDATE {schema}.jobs AS j SET paused_until = (
        SELECT max(coalesce(p.resumed_at, 9223372036854775807)) FROM {schema}.pauses AS p
        WHERE p.job = j.name
    )
    WHERE j.name = ANY (names)
$body$;

-- Pause a job whose row is locked; one that is paused keeps its pause as it is.
CREATE OR REPLACE FUNCTION {schema}.begin_pause(of_job text, why text, now bigint) RETURNS void
LANGUAGE plpgsql VOLATILE AS $body$
DECLARE
    latest {schema}.pauses;
BEGIN
    PERFORM FROM {schema}.jobs AS j WHERE j.name = of_job AND {schema}.is_paused(j);
    IF FOUND THEN
        RETURN;
    END IF;
    SELECT * INTO latest FROM {schema}.pauses WHERE job = of_job ORDER BY paused_at DESC LIMIT 1;
    IF latest.resumed_at >= now THEN -- begun in the moment in which that one ended
        UPDATE {schema}.pauses SET resumed_at = NULL, note = why
        WHERE job = of_job AND paused_at = latest.paused_at;
    ELSE
        INSERT INTO {schema}.pauses VALUES (of_job, now, NULL, why);
    END IF;
    PERFORM {schema}.note_pauses(ARRAY[of_job]);
END
$body$;

-- Let no claim of a job win; false where nobody has declared it.
CREATE OR REPLACE FUNCTION {schema}.pause(of_job text, why text) RETURNS json
LANGUAGE plpgsql VOLATILE {settings} AS $body$
BEGIN
    PERFORM FROM {schema}.jobs WHERE name = of_job AND last_seen > 0 FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN to_json(false);
    END IF;
    PERFORM {schema}.begin_pause(of_job, why, {schema}.now_ms());
    RETURN to_json(true);
END
$body$;

CREATE OR REPLACE FUNCTION {schema}.resume(of_job text) RETURNS json
LANGUAGE plpgsql VOLATILE {settings} AS $body$
BEGIN
    PERFORM FROM {schema}.jobs WHERE name = of_job AND last_seen > 0 FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN to_json(false);
    END IF;
    UPDATE {schema}.pauses SET resumed_at = greatest({schema}.now_ms(), paused_at)
    WHERE job = of_job AND resumed_at IS NULL;
    IF FOUND THEN
        PERFORM {schema}.note_pauses(ARRAY[of_job]);
    END IF;
    RETURN to_json(true);
END
$body$;

-- The pauses of a job, newest first.
CREATE OR REPLACE FUNCTION {schema}.pauses_of(of_job text) RETURNS json
LANGUAGE plpgsql VOLATILE {settings} AS $body$
BEGIN
    RETURN (
        SELECT json_agg(
            json_build_array(p.paused_at, p.resumed_at, p.note) ORDER BY p.paused_at DESC
        )
        FROM {schema}.pauses AS p WHERE p.job = of_job
    );
END
$body$;

-- All jobs that were declared, by name, each with the pause that lasts.
CREATE OR REPLACE FUNCTION {schema}.known_jobs() RETURNS json
LANGUAGE plpgsql VOLATILE {settings} AS $body$
BEGIN
    RETURN (
        SELECT json_agg(
            json_build_array(
                j.name, j.schedule, j.first_seen, j.last_seen, p.paused_at, p.note
            ) ORDER BY j.name COLLATE "C"
        )
        FROM {schema}.jobs AS j LEFT JOIN LATERAL (
            SELECT * FROM {schema}.pauses AS a
            WHERE {schema}.is_paused(j) AND a.job = j.name AND a.resumed_at IS NULL
            ORDER BY a.paused_at DESC LIMIT 1
        ) AS p ON true
        WHERE j.last_seen > 0
    );
END
$body$;
