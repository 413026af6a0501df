-- What another store hands over: kept where it is not there yet, and a second time without effect.
CREATE OR REPLACE FUNCTION {schema}.raise_fences(next_fence json) RETURNS void
LANGUAGE plpgsql VOLATILE {settings} AS $body$
BEGIN
    PERFORM {schema}.pass_lost_fences(); -- or that of a claim would take this one back
    -- Far above, since others may draw numbers between the look and the change.
    PERFORM setval({fences}, (next_fence #>> '{}')::bigint + 1000000, false)
    FROM {schema}.fences AS f
    WHERE f.last_value < (next_fence #>> '{}')::bigint;
END
$body$;

CREATE OR REPLACE FUNCTION {schema}.absorb_jobs(
    names json, schedules json, first json, latest json, marks json, instants json
) RETURNS json LANGUAGE plpgsql VOLATILE {settings} AS $body$
DECLARE
    added bigint;
BEGIN
    SELECT count(*) INTO added FROM unnest({schema}.texts(names)) AS a(name)
    WHERE NOT EXISTS (SELECT FROM {schema}.jobs AS j WHERE j.name = a.name);
    INSERT INTO {schema}.jobs AS j (name, schedule, first_seen, last_seen, pruned, once_at)
    SELECT
        a.name, a.schedule, a.first::bigint, a.latest::bigint, a.mark::bigint, a.once_at::bigint
    FROM ROWS FROM (
        json_array_elements_text(names), json_array_elements_text(schedules),
        json_array_elements_text(first), json_array_elements_text(latest),
        json_array_elements_text(marks), json_array_elements_text(instants)
    ) AS a(name, schedule, first, latest, mark, once_at)
    ORDER BY a.name
    ON CONFLICT (name) DO UPDATE SET
        schedule = CASE WHEN j.last_seen = 0 THEN excluded.schedule ELSE j.schedule END,
        last_seen = CASE WHEN j.last_seen = 0 THEN excluded.last_seen ELSE j.last_seen END,
        first_seen = least(j.first_seen, excluded.first_seen),
        pruned = greatest(j.pruned, excluded.pruned),
        once_at = coalesce(j.once_at, excluded.once_at);
    RETURN to_json(added);
END
$body$;

CREATE OR REPLACE FUNCTION {schema}.absorb_runs(
    jobs json, slots json, states json, tokens json, attempts json, losses json, fences json,
    released_fences json, instances json, triggers json, claimed json, leases json, ends json,
    retried json, origins json, cancellations json
) RETURNS json LANGUAGE plpgsql VOLATILE {settings} AS $body$
DECLARE
    added bigint;
BEGIN
    PERFORM {schema}.lock_jobs(
        ARRAY(SELECT DISTINCT j FROM unnest({schema}.texts(jobs)) AS j), {schema}.now_ms()
    );
    INSERT INTO {schema}.runs
    SELECT
        a.job, a.slot::bigint, a.state, a.token, a.attempt::integer, a.lost::integer,
        a.fence::bigint, a.released_fence::bigint, a.instance, a.trigger, a.claimed_at::bigint,
        a.lease_until::bigint, a.lease_ended::boolean, a.retries::integer, a.origin,
        a.cancelled::boolean
    FROM ROWS FROM (
        json_array_elements_text(jobs), json_array_elements_text(slots),
        json_array_elements_text(states), json_array_elements_text(tokens),
        json_array_elements_text(attempts), json_array_elements_text(losses),
        json_array_elements_text(fences), json_array_elements_text(released_fences),
        json_array_elements_text(instances), json_array_elements_text(triggers),
        json_array_elements_text(claimed), json_array_elements_text(leases),
        json_array_elements_text(ends), json_array_elements_text(retried),
        json_array_elements_text(origins), json_array_elements_text(cancellations)
    ) AS a(
        job, slot, state, token, attempt, lost, fence, released_fence, instance, trigger,
        claimed_at, lease_until, lease_ended, retries, origin, cancelled
    )
    ORDER BY a.job, a.slot::bigint
    ON CONFLICT (job, slot) DO NOTHING;
    GET DIAGNOSTICS added = ROW_COUNT;
    RETURN to_json(added);
END
$body$;

-- Two sources may have given the same fences, of which a store can keep one record each: so how many
-- are of other attempts than what has their place is answered too.
CREATE OR REPLACE FUNCTION {schema}.absorb_results(
    fences json, jobs json, slots json, attempts json, instances json, triggers json,
    statuses json, started json, ended json, errors json, retried json
) RETURNS json LANGUAGE plpgsql VOLATILE {settings} AS $body$
DECLARE
    added bigint;
    clashing bigint;
BEGIN
    INSERT INTO {schema}.results
    SELECT
        a.fence::bigint, a.job, a.slot::bigint, a.attempt::integer, a.instance, a.trigger, a.status,
        a.started::bigint, a.ended::bigint, a.error, a.retries::integer
    FROM ROWS FROM (
        json_array_elements_text(fences), json_array_elements_text(jobs),
        json_array_elements_text(slots), json_array_elements_text(attempts),
        json_array_elements_text(instances), json_array_elements_text(triggers),
        json_array_elements_text(statuses), json_array_elements_text(started),
        json_array_elements_text(ended), json_array_elements_text(errors),
        json_array_elements_text(retried)
    ) AS a(fence, job, slot, attempt, instance, trigger, status, started, ended, error, retries)
    ORDER BY a.fence::bigint
    ON CONFLICT (fence) DO NOTHING;
    GET DIAGNOSTICS added = ROW_COUNT;
    SELECT count(*) INTO clashing FROM ROWS FROM (
        json_array_elements_text(fences), json_array_elements_text(jobs),
        json_array_elements_text(slots), json_array_elements_text(attempts)
    ) AS a(fence, job, slot, attempt)
    JOIN {schema}.results AS r ON r.fence = a.fence::bigint
    WHERE (r.job, r.slot, r.attempt) <> (a.job, a.slot::bigint, a.attempt::integer);
    RETURN json_build_array(added, clashing);
END
$body$;

CREATE OR REPLACE FUNCTION {schema}.absorb_pauses(
    jobs json, begins json, ends json, notes json
) RETURNS void LANGUAGE plpgsql VOLATILE {settings} AS $body$
DECLARE
    names text[] := ARRAY(SELECT DISTINCT j FROM unnest({schema}.texts(jobs)) AS j);
BEGIN
    PERFORM {schema}.lock_jobs(names, {schema}.now_ms());
    INSERT INTO {schema}.pauses
    SELECT a.job, a.paused_at::bigint, a.resumed_at::bigint, a.note
    FROM ROWS FROM (
        json_array_elements_text(jobs), json_array_elements_text(begins),
        json_array_elements_text(ends), json_array_elements_text(notes)
    ) AS a(job, paused_at, resumed_at, note)
    ON CONFLICT (job, paused_at) DO NOTHING;
    PERFORM {schema}.note_pauses(names);
END
$body$;

CREATE OR REPLACE FUNCTION {schema}.absorb_backfills(
    jobs json, begins json, ends json, totals json, askers json, asked json, cursors json,
    successes json, failures json, ended json
) RETURNS void LANGUAGE plpgsql VOLATILE {settings} AS $body$
BEGIN
    PERFORM {schema}.lock_jobs(
        ARRAY(SELECT DISTINCT j FROM unnest({schema}.texts(jobs)) AS j), {schema}.now_ms()
    );
    INSERT INTO {schema}.backfills
    SELECT
        a.job, a.since::bigint, a.until::bigint, a.total::bigint, a.instance, a.asked_at::bigint,
        a.cursor::bigint, a.succeeded::bigint, a.failed::bigint, a.ended_at::bigint
    FROM ROWS FROM (
        json_array_elements_text(jobs), json_array_elements_text(begins),
        json_array_elements_text(ends), json_array_elements_text(totals),
        json_array_elements_text(askers), json_array_elements_text(asked),
        json_array_elements_text(cursors), json_array_elements_text(successes),
        json_array_elements_text(failures), json_array_elements_text(ended)
    ) AS a(
        job, since, until, total, instance, asked_at, cursor, succeeded, failed, ended_at
    )
    ON CONFLICT (job) DO NOTHING;
END
$body$;
