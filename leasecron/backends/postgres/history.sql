-- Add records of holders that may still record their attempt: it is the run's latest and nobody
-- closed it, or it was released. An earlier attempt without a record was released too: of one that
-- was lost there is a record. Who made way for a newer run has ended it himself.
CREATE OR REPLACE FUNCTION {schema}.save_results(
    fences json, jobs json, slots json, attempts json, instances json, triggers json,
    statuses json, started json, ended json, errors json, retries json DEFAULT '[]'
) RETURNS void LANGUAGE plpgsql VOLATILE {settings} AS $body$
BEGIN
    INSERT INTO {schema}.results
    SELECT
        a.fence::bigint, a.job, a.slot::bigint, a.attempt::integer, a.instance, a.trigger, a.status,
        a.started::bigint, a.ended::bigint, a.error, coalesce(a.retries::integer, 0)
    FROM ROWS FROM (
        json_array_elements_text(fences), json_array_elements_text(jobs),
        json_array_elements_text(slots), json_array_elements_text(attempts),
        json_array_elements_text(instances), json_array_elements_text(triggers),
        json_array_elements_text(statuses), json_array_elements_text(started),
        json_array_elements_text(ended), json_array_elements_text(errors),
        json_array_elements_text(retries)
    ) AS a(fence, job, slot, attempt, instance, trigger, status, started, ended, error, retries)
    JOIN {schema}.runs AS r ON r.job = a.job AND r.slot = a.slot::bigint
    WHERE a.fence::bigint < r.fence OR a.fence::bigint = r.released_fence
    OR a.fence::bigint = r.fence AND (
        r.state NOT IN ('abandoned', 'replaced') OR r.cancelled OR r.attempt = 0
    )
    ORDER BY a.fence::bigint
    ON CONFLICT (fence) DO NOTHING;
END
$body$;

CREATE OR REPLACE FUNCTION {schema}.as_json(r {schema}.results) RETURNS json
LANGUAGE sql STABLE AS $body$
    SELECT json_build_array(
        r.fence, r.job, r.slot, r.attempt, r.instance, r.trigger, r.status, r.started_at,
        r.ended_at, r.error, r.retries
    )
$body$;

-- Records, newest first: at most so many of those before a fence, of one job or of all.
CREATE OR REPLACE FUNCTION {schema}.history(of_job text, before bigint, most bigint) RETURNS json
LANGUAGE plpgsql VOLATILE {settings} AS $body$
BEGIN
    IF of_job IS NULL THEN
        RETURN (
            SELECT json_agg({schema}.as_json(r::{schema}.results) ORDER BY r.fence DESC) FROM (
                SELECT * FROM {schema}.results AS f WHERE f.fence < before
                ORDER BY f.fence DESC LIMIT most
            ) AS r
        );
    END IF;
    RETURN (
        SELECT json_agg({schema}.as_json(r::{schema}.results) ORDER BY r.fence DESC) FROM (
            SELECT * FROM {schema}.results AS f WHERE f.job = of_job AND f.fence < before
            ORDER BY f.fence DESC LIMIT most
        ) AS r
    );
END
$body$;

-- How one run stands, with the record of its latest attempt.
CREATE OR REPLACE FUNCTION {schema}.run_state(of_job text, at_slot bigint) RETURNS json
LANGUAGE plpgsql VOLATILE {settings} AS $body$
BEGIN
    RETURN (
        SELECT json_build_array(
            CASE
                WHEN r.state = 'claimed' THEN 'running'
                WHEN r.state = 'released' AND r.attempt = 0 THEN 'waiting'
                ELSE r.state
            END,
            r.attempt, r.retries, r.instance, (
                SELECT {schema}.as_json(f) FROM {schema}.results AS f
                WHERE f.fence = r.fence AND f.job = r.job AND f.slot = r.slot
            ),
            r.fence, r.trigger, r.claimed_at,
            CASE WHEN {schema}.has_ended(r) THEN r.lease_until END
        )
        FROM {schema}.runs AS r WHERE r.job = of_job AND r.slot = at_slot
    );
END
$body$;
