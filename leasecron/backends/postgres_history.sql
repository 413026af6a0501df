-- Add records of holders that may still record their attempt: it is the run's latest and nobody
-- closed it, or it was released. An earlier attempt without a record was released too: of one that
-- was lost there is a record.
CREATE OR REPLACE FUNCTION {schema}.save_results(
    fences json, jobs json, slots json, attempts json, instances json, triggers json,
    statuses json, started json, ended json, errors json
) RETURNS void LANGUAGE plpgsql VOLATILE {settings} AS $body$
BEGIN
    INSERT INTO {schema}.results
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
    JOIN {schema}.runs AS r ON r.job = a.job AND r.slot = a.slot::bigint
    WHERE a.fence::bigint < r.fence OR a.fence::bigint = r.released_fence
    OR a.fence::bigint = r.fence AND r.state NOT IN ('abandoned', 'replaced')
    ORDER BY a.fence::bigint
    ON CONFLICT (fence) DO NOTHING;
END
$body$;

-- Records, newest first: at most so many of those before a fence, of one job or of all.
CREATE OR REPLACE FUNCTION {schema}.history(of_job text, before bigint, most bigint) RETURNS json
LANGUAGE plpgsql VOLATILE {settings} AS $body$
BEGIN
    IF of_job IS NULL THEN
        RETURN (
            SELECT json_agg(json_build_array(
                r.fence, r.job, r.slot, r.attempt, r.instance, r.trigger, r.status, r.started_at,
                r.ended_at, r.error
            ) ORDER BY r.fence DESC) FROM (
                SELECT * FROM {schema}.results AS f WHERE f.fence < before
                ORDER BY f.fence DESC LIMIT most
            ) AS r
        );
    END IF;
    RETURN (
        SELECT json_agg(json_build_array(
                r.fence, r.job, r.slot, r.attempt, r.instance, r.trigger, r.status, r.started_at,
                r.ended_at, r.error
            ) ORDER BY r.fence DESC) FROM (
            SELECT * FROM {schema}.results AS f WHERE f.job = of_job AND f.fence < before
            ORDER BY f.fence DESC LIMIT most
        ) AS r
    );
END
$body$;
