-- Backfills: each is a row, and goes on from slot to slot while the row of its job is held.
CREATE OR REPLACE FUNCTION {schema}.backfill_as_json(b {schema}.backfills) RETURNS json
LANGUAGE sql STABLE AS $body$
    SELECT json_build_array(
        b.job, b.since, b.until, b.total, b.instance, b.asked_at, b.cursor, b.succeeded, b.failed,
        b.ended_at
    )
$body$;

-- Begin one, unless one goes on; whether it was begun, and the one that goes on.
CREATE OR REPLACE FUNCTION {schema}.add_backfill(
    of_job text, begins bigint, ends bigint, slots bigint, asker text
) RETURNS json LANGUAGE plpgsql VOLATILE {settings} AS $body$
DECLARE
    backfill {schema}.backfills;
    now bigint := {schema}.now_ms();
    is_new boolean := false;
BEGIN
    PERFORM {schema}.lock_rows_of_jobs(ARRAY[of_job], now);
    now := {schema}.now_ms();
    SELECT * INTO backfill FROM {schema}.backfills WHERE job = of_job;
    IF NOT FOUND OR backfill.ended_at IS NOT NULL THEN
        DELETE FROM {schema}.backfills WHERE job = of_job;
        INSERT INTO {schema}.backfills VALUES (
            of_job, begins, ends, slots, asker, greatest(now, backfill.asked_at + 1),
            NULL, 0, 0, NULL
        )
        RETURNING * INTO backfill;
        is_new := true;
        PERFORM pg_notify({channel}, begins || ' ' || of_job);
    END IF;
    RETURN json_build_array(is_new, {schema}.backfill_as_json(backfill));
END
$body$;

-- Those that go on, by job.
CREATE OR REPLACE FUNCTION {schema}.backfills_that_go_on() RETURNS json
LANGUAGE plpgsql VOLATILE {settings} AS $body$
BEGIN
    RETURN (
        SELECT json_agg({schema}.backfill_as_json(b) ORDER BY b.job COLLATE "C")
        FROM {schema}.backfills AS b WHERE b.ended_at IS NULL
    );
END
$body$;

CREATE OR REPLACE FUNCTION {schema}.backfill_of(of_job text) RETURNS json
LANGUAGE plpgsql VOLATILE {settings} AS $body$
BEGIN
    RETURN (
        SELECT {schema}.backfill_as_json(b) FROM {schema}.backfills AS b WHERE b.job = of_job
    );
END
$body$;

-- The slots of a range that succeeded, as far as rows and records tell.
CREATE OR REPLACE FUNCTION {schema}.succeeded(of_job text, begins bigint, ends bigint) RETURNS json
LANGUAGE plpgsql VOLATILE {settings} AS $body$
BEGIN
    RETURN (
        SELECT json_agg(s.slot ORDER BY s.slot) FROM (
            SELECT r.slot FROM {schema}.runs AS r
            WHERE r.job = of_job AND r.slot >= begins AND r.slot < ends AND r.state = 'success'
            UNION
            SELECT f.slot FROM {schema}.results AS f
            WHERE f.job = of_job AND f.slot >= begins AND f.slot < ends AND f.status = 'success'
        ) AS s
    );
END
$body$;

-- A backfill with the run counted that it has come to, if that has ended.
CREATE OR REPLACE FUNCTION {schema}.counted(backfill {schema}.backfills)
RETURNS {schema}.backfills LANGUAGE plpgsql STABLE AS $body$
DECLARE
    run {schema}.runs;
BEGIN
    SELECT * INTO run FROM {schema}.runs
    WHERE job = backfill.job AND slot = backfill.cursor;
    IF run.state = 'success' THEN -- by the backfill or, meanwhile, by itself
        backfill.succeeded := backfill.succeeded + 1;
    ELSIF run.origin = 'backfill' AND run.state NOT IN ('claimed', 'released') THEN
        backfill.failed := backfill.failed + 1;
    END IF;
    RETURN backfill;
END
$body$;

CREATE OR REPLACE FUNCTION {schema}.keep_backfill(backfill {schema}.backfills) RETURNS void
LANGUAGE sql VOLATILE AS $body$
    UPDATE {schema}.backfills SET
        cursor = backfill.cursor, succeeded = backfill.succeeded, failed = backfill.failed,
        ended_at = backfill.ended_at
    WHERE job = backfill.job
$body$;

-- Whether the next step of a backfill is due: it has come to this slot, and the run there has ended
-- and its lease with it, which a handler keeps that ignores its timeout.
CREATE OR REPLACE FUNCTION {schema}.is_due(of_job text, asked bigint, come_to bigint)
RETURNS boolean LANGUAGE sql VOLATILE AS $body$
    SELECT EXISTS (
        SELECT FROM {schema}.backfills AS b
        WHERE b.job = of_job AND b.asked_at = asked AND b.ended_at IS NULL
        AND b.cursor IS NOT DISTINCT FROM come_to
    ) AND NOT EXISTS (
        SELECT FROM {schema}.runs AS r
        WHERE r.job = of_job AND r.origin = 'backfill' AND (
            r.state IN ('claimed', 'released') OR {schema}.is_alive(r, {schema}.now_ms())
        )
    )
$body$;

-- Go on to a slot, or come to the end without one. The run of the slot is put in for anybody to
-- begin: its attempts begin anew, and the fences of those before stay, for their records.
CREATE OR REPLACE FUNCTION {schema}.advance(
    of_job text, asked bigint, come_to bigint, next_slot bigint
) RETURNS json LANGUAGE plpgsql VOLATILE {settings} AS $body$
DECLARE
    backfill {schema}.backfills;
    run {schema}.runs;
    now bigint := {schema}.now_ms();
BEGIN
    -- All instances ask for each step, and one of them is the first.
    IF NOT {schema}.is_due(of_job, asked, come_to) THEN
        RETURN to_json('stale'::text);
    END IF;
    PERFORM {schema}.lock_rows_of_jobs(ARRAY[of_job], now);
    PERFORM FROM {schema}.runs AS r
    WHERE r.job = of_job AND (
        r.slot = next_slot OR r.state IN ('claimed', 'released') OR NOT r.lease_ended
    )
    ORDER BY r.slot FOR NO KEY UPDATE;
    now := {schema}.now_ms();
    IF NOT {schema}.is_due(of_job, asked, come_to) THEN
        RETURN to_json('stale'::text);
    END IF;
    SELECT * INTO backfill FROM {schema}.backfills WHERE job = of_job;
    IF next_slot IS NULL THEN
        backfill := {schema}.counted(backfill);
        backfill.ended_at := now;
        PERFORM {schema}.keep_backfill(backfill);
        RETURN to_json('ended'::text);
    END IF;

    PERFORM FROM {schema}.jobs AS j WHERE j.name = of_job AND {schema}.is_paused(j);
    IF FOUND THEN
        RETURN to_json('paused'::text);
    END IF;
    -- A slot of the schedule that waits goes first, and one that is being run is waited for.
    PERFORM FROM {schema}.runs AS r
    WHERE r.job = of_job AND (
        r.slot = next_slot AND {schema}.is_alive(r, now)
        OR r.origin = 'scheduled' AND r.attempt = 0 AND r.state IN ('claimed', 'released')
    );
    IF FOUND THEN
        RETURN to_json('busy'::text);
    END IF;
    backfill := {schema}.counted(backfill);
    backfill.cursor := next_slot;
    PERFORM {schema}.keep_backfill(backfill);
    SELECT * INTO run FROM {schema}.runs WHERE job = of_job AND slot = next_slot;
    IF run.state = 'success' THEN
        RETURN to_json('skipped'::text);
    ELSIF run.state IN ('claimed', 'released') THEN
        PERFORM {schema}.close_run(run, 'replaced', now);
    END IF;
    DELETE FROM {schema}.runs WHERE job = of_job AND slot = next_slot;
    INSERT INTO {schema}.runs VALUES (
        of_job, next_slot, 'released', '', 0, 0, coalesce(run.fence, 0), run.released_fence,
        backfill.instance, 'backfill', now, now, true, 0, 'backfill', false
    );
    RETURN to_json('waiting'::text);
END
$body$;

-- End one before its time: what was not begun is not, and a live run goes on.
CREATE OR REPLACE FUNCTION {schema}.cancel_backfill(of_job text, of_asking bigint) RETURNS json
LANGUAGE plpgsql VOLATILE {settings} AS $body$
DECLARE
    backfill {schema}.backfills;
    run {schema}.runs;
    now bigint := {schema}.now_ms();
BEGIN
    PERFORM {schema}.lock_jobs(ARRAY[of_job], now);
    now := {schema}.now_ms();
    SELECT * INTO backfill FROM {schema}.backfills
    WHERE job = of_job AND asked_at = of_asking AND ended_at IS NULL;
    IF NOT FOUND THEN
        RETURN to_json(false);
    END IF;
    SELECT * INTO run FROM {schema}.runs
    WHERE job = of_job AND slot = backfill.cursor AND origin = 'backfill' AND attempt = 0
    AND state IN ('claimed', 'released');
    IF FOUND THEN
        PERFORM {schema}.close_run(run, 'replaced', now);
    ELSE
        backfill := {schema}.counted(backfill);
    END IF;
    backfill.ended_at := now;
    PERFORM {schema}.keep_backfill(backfill);
    RETURN to_json(true);
END
$body$;

-- The instants of jobs that run once: those that were given first.
CREATE OR REPLACE FUNCTION {schema}.fix(jobs json, instants json) RETURNS json
LANGUAGE plpgsql VOLATILE {settings} AS $body$
DECLARE
    names text[] := {schema}.texts(jobs);
    given bigint[] := {schema}.texts(instants)::bigint[];
BEGIN
    PERFORM {schema}.lock_jobs(
        ARRAY(SELECT DISTINCT n FROM unnest(names) AS n), {schema}.now_ms()
    );
    UPDATE {schema}.jobs AS j SET once_at = a.at FROM (
        SELECT DISTINCT ON (g.job) g.job, g.at
        FROM unnest(names, given) WITH ORDINALITY AS g(job, at, place)
        ORDER BY g.job, g.place
    ) AS a
    WHERE j.name = a.job AND j.once_at IS NULL;
    RETURN (
        SELECT json_agg(j.once_at ORDER BY a.place)
        FROM unnest(names) WITH ORDINALITY AS a(name, place)
        JOIN {schema}.jobs AS j ON j.name = a.name
    );
END
$body$;
