-- Rows of runs that can decide nothing any more: not the newest slot of the schedule that was begun
-- or is made up for, by which older ones are replaced, none that waits to be begun, and both the
-- slot and the end of the lease long past.
CREATE OR REPLACE FUNCTION {schema}.old_runs(
    names text[], keeps double precision[], now bigint, most bigint
) RETURNS SETOF {schema}.runs LANGUAGE sql STABLE AS $body$
    SELECT o.* FROM unnest(names, keeps) AS a(job, keep)
    CROSS JOIN LATERAL (
        SELECT r.* FROM {schema}.runs AS r
        WHERE r.job = a.job AND r.slot < now - a.keep
        AND (r.attempt > 0 OR {schema}.has_ended(r))
        AND (
            r.origin = 'manual' OR r.slot < (
                SELECT max(b.slot) FROM {schema}.runs AS b
                WHERE b.job = a.job
                AND (b.attempt > 0 AND b.origin = 'scheduled' OR b.origin = 'backfill')
            )
        )
        AND NOT {schema}.is_alive(r, now)
        AND greatest(r.slot, r.lease_until) + a.keep < now
        ORDER BY r.slot LIMIT most
    ) AS o
    LIMIT most
$body$;

-- Remove what need not be kept of some jobs, at most so many rows; true where some are left.
CREATE OR REPLACE FUNCTION {schema}.prune(
    jobs json, runs_kept json, records_kept json, ages json, most_records bigint, room bigint
) RETURNS json LANGUAGE plpgsql VOLATILE {settings} AS $body$
DECLARE
    names text[] := {schema}.texts(jobs);
    keeps double precision[] := {schema}.texts(runs_kept)::double precision[];
    records bigint[] := {schema}.texts(records_kept)::bigint[];
    limits double precision[] := {schema}.texts(ages)::double precision[];
    now bigint := {schema}.now_ms();
    found text[];
    old {schema}.runs[];
    old_fences bigint[];
    removed bigint;
BEGIN
    found := ARRAY(
        SELECT DISTINCT o.job FROM {schema}.old_runs(names, keeps, now, room + 1) AS o
    );
    PERFORM {schema}.lock_jobs(found, now);
    now := {schema}.now_ms();
    -- Looked for again: a run may have been taken over until its job was locked.
    old := ARRAY(
        SELECT o::{schema}.runs FROM {schema}.old_runs(names, keeps, now, room + 1) AS o
        WHERE o.job = ANY (found)
    );
    removed := cardinality(old);
    old := old[:room];
    PERFORM {schema}.record_lost(o::{schema}.runs, now) FROM unnest(old) AS o
    WHERE o.state = 'claimed';
    DELETE FROM {schema}.runs AS r USING unnest(old) AS o
    WHERE r.job = o.job AND r.slot = o.slot;
    UPDATE {schema}.jobs AS j SET pruned = greatest(j.pruned, o.newest)
    FROM (
        SELECT job, max(slot) AS newest FROM unnest(old) WHERE origin <> 'manual' GROUP BY job
    ) AS o
    WHERE j.name = o.job;

    IF removed > room THEN
        RETURN to_json(true);
    END IF;
    room := room - removed;
    old_fences := ARRAY(
        SELECT f.fence FROM unnest(names, records, limits) AS a(job, kept, age)
        CROSS JOIN LATERAL (
            SELECT r.fence FROM {schema}.results AS r
            WHERE r.job = a.job
            AND r.fence <= (
                SELECT b.fence FROM {schema}.results AS b WHERE b.job = a.job
                ORDER BY b.fence DESC LIMIT 1 OFFSET least(a.kept, most_records)
            )
            AND (
                r.ended_at < now - a.age OR r.fence <= (
                    SELECT b.fence FROM {schema}.results AS b WHERE b.job = a.job
                    ORDER BY b.fence DESC LIMIT 1 OFFSET most_records
                )
            )
            ORDER BY r.fence LIMIT room + 1
        ) AS f
        LIMIT room + 1
    );
    DELETE FROM {schema}.results WHERE fence = ANY (old_fences[:room]);
    IF cardinality(old_fences) > room THEN
        RETURN to_json(true);
    END IF;
    -- No slot in it can be claimed any more, and of the history there is as much.
    DELETE FROM {schema}.pauses AS p USING unnest(names, keeps, limits) AS a(job, keep, age)
    WHERE p.job = a.job AND p.resumed_at < now - greatest(a.keep, a.age);
    RETURN to_json(false);
END
$body$;
