-- What is asked and what is answered, one for each item of a batch.
CREATE TYPE {schema}.asked_claim AS (
    place bigint, job text, slot bigint, token text, instance text, lease bigint, overlap text,
    max_attempts integer, max_late double precision, mode text, trigger text
);
CREATE TYPE {schema}.claim_answer AS (
    place bigint, outcome text, attempt integer, fence bigint, holder text, other bigint,
    abandoned boolean, closed {schema}.results[]
);
CREATE FUNCTION {schema}.has_ended(run {schema}.runs) RETURNS boolean LANGUAGE sql IMMUTABLE AS $body$
    SELECT run.state NOT IN ('claimed', 'released')
$body$;

CREATE FUNCTION {schema}.is_alive(run {schema}.runs, now bigint) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $body$
    SELECT NOT run.lease_ended AND run.lease_until > now
$body$;

CREATE FUNCTION {schema}.texts(items json) RETURNS text[] LANGUAGE sql IMMUTABLE AS $body$
    SELECT ARRAY(SELECT json_array_elements_text(items))
$body$;

-- Record the latest attempt of a run as lost; without effect where its record is there already.
CREATE FUNCTION {schema}.record_lost(run {schema}.runs, now bigint) RETURNS {schema}.results
LANGUAGE plpgsql VOLATILE AS $body$
DECLARE
    lost {schema}.results;
BEGIN
    lost := ROW(
        run.fence, run.job, run.slot, run.attempt, run.instance, run.trigger, 'lost',
        run.claimed_at, greatest(run.claimed_at, least(run.lease_until, now)), NULL
    );
    INSERT INTO {schema}.results SELECT lost.* ON CONFLICT (fence) DO NOTHING;
    RETURN lost;
END
$body$;

-- End a run in its holder's place. The fresh token makes all that he still says stale.
CREATE FUNCTION {schema}.close_run(run {schema}.runs, ended text, now bigint)
RETURNS {schema}.results[] LANGUAGE plpgsql VOLATILE AS $body$
DECLARE
    closed {schema}.results[] := '{}';
BEGIN
    IF run.state = 'claimed' THEN
        closed := ARRAY[{schema}.record_lost(run, now)];
    END IF;
    UPDATE {schema}.runs SET
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
CREATE FUNCTION {schema}.decide(
    item {schema}.asked_claim, now bigint, OUT answer {schema}.claim_answer
) LANGUAGE plpgsql VOLATILE AS $body$
DECLARE
    run {schema}.runs;
    other {schema}.runs;
    is_claimed boolean;
    attempts integer := 0;
    losses integer := 0;
BEGIN
    answer.place := item.place;
    answer.abandoned := false;
    SELECT * INTO run FROM {schema}.runs WHERE job = item.job AND slot = item.slot;
    is_claimed := FOUND;

    IF NOT is_claimed THEN
        IF item.mode = 'takeover' THEN
            answer.outcome := 'none';
            RETURN;
        END IF;
        PERFORM FROM {schema}.jobs
        WHERE name = item.job AND pruned >= item.slot AND pruned <= now;
        IF FOUND THEN
            answer.outcome := 'done';
            RETURN;
        END IF;
        IF now - item.slot > item.max_late THEN
            answer.outcome := 'late';
            RETURN;
        END IF;
    ELSIF {schema}.has_ended(run) THEN
        answer.outcome := 'done';
        answer.holder := run.instance;
        RETURN;
    ELSIF {schema}.is_alive(run, now) THEN
        answer.attempt := run.attempt;
        IF run.token = item.token THEN
            -- The answer to an earlier try was lost. Its holder trusts the lease from this call on.
            UPDATE {schema}.runs SET lease_until = now + item.lease
            WHERE job = run.job AND slot = run.slot;
            answer.outcome := 'won';
            answer.fence := run.fence;
        ELSE
            answer.outcome := 'running';
            answer.holder := run.instance;
        END IF;
        RETURN;
    ELSE
        PERFORM FROM {schema}.runs
        WHERE job = item.job AND slot > item.slot AND slot <= now LIMIT 1;
        IF FOUND THEN
            answer.outcome := 'done';
            answer.holder := run.instance;
            answer.closed := {schema}.close_run(run, 'replaced', now);
            RETURN;
        END IF;
        -- An attempt that nobody released has lost its lease; it is counted once it is superseded.
        losses := run.lost + (run.state = 'claimed')::integer;
        IF losses >= item.max_attempts THEN
            answer.outcome := 'done';
            answer.holder := run.instance;
            answer.abandoned := true;
            answer.closed := {schema}.close_run(run, 'abandoned', now);
            RETURN;
        END IF;
        attempts := run.attempt;
    END IF;

    IF item.overlap <> 'allow' THEN
        SELECT * INTO other FROM {schema}.runs AS o
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
        answer.closed := ARRAY[{schema}.record_lost(run, now)];
    END IF;
    answer.outcome := 'won';
    answer.attempt := attempts + 1;
    answer.fence := nextval({fences});
    INSERT INTO {schema}.runs VALUES (
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
        SELECT * FROM {schema}.runs AS o
        WHERE o.job = item.job AND o.slot <> item.slot AND NOT {schema}.is_alive(o, now)
        AND (o.state IN ('claimed', 'released') OR NOT o.lease_ended)
        ORDER BY o.slot
    LOOP
        IF NOT {schema}.has_ended(other) AND other.slot < item.slot THEN
            answer.closed := answer.closed || {schema}.close_run(other, 'replaced', now);
        ELSIF item.overlap = 'skip' OR {schema}.has_ended(other) THEN
            UPDATE {schema}.runs SET lease_until = least(lease_until, now), lease_ended = true
            WHERE job = other.job AND slot = other.slot AND NOT lease_ended;
        END IF;
    END LOOP;
END
$body$;

-- Lock jobs and their open runs for claims, which alone make new runs; who is not known is noted.
CREATE FUNCTION {schema}.lock_jobs(names text[], now bigint) RETURNS void
LANGUAGE plpgsql VOLATILE AS $body$
BEGIN
    INSERT INTO {schema}.jobs (name, schedule, first_seen, last_seen)
    SELECT n.name, '', now, now FROM unnest(names) AS n(name)
    WHERE NOT EXISTS (SELECT FROM {schema}.jobs AS j WHERE j.name = n.name)
    ORDER BY n.name ON CONFLICT (name) DO NOTHING;
    PERFORM FROM {schema}.jobs WHERE name = ANY (names) ORDER BY name FOR NO KEY UPDATE;
    PERFORM FROM {schema}.runs
    WHERE job = ANY (names) AND (state IN ('claimed', 'released') OR NOT lease_ended)
    ORDER BY job, slot FOR NO KEY UPDATE;
END
$body$;

-- The claims on which nothing that is in the store bears, nor another claim of the batch.
CREATE FUNCTION {schema}.free_claims(waiting {schema}.asked_claim[])
RETURNS SETOF {schema}.asked_claim LANGUAGE sql STABLE AS $body$
    SELECT
        a.place, a.job, a.slot, a.token, a.instance, a.lease, a.overlap,
        a.max_attempts, a.max_late, a.mode, a.trigger
    FROM (
        SELECT w.*, count(*) OVER (PARTITION BY w.job) AS of_job FROM unnest(waiting) AS w
    ) AS a
    WHERE a.of_job = 1
    AND NOT EXISTS (
        SELECT FROM {schema}.runs AS r
        WHERE r.job = a.job AND (r.state IN ('claimed', 'released') OR NOT r.lease_ended)
    )
    AND NOT EXISTS (SELECT FROM {schema}.runs AS r WHERE r.job = a.job AND r.slot = a.slot)
    AND NOT EXISTS (SELECT FROM {schema}.jobs AS j WHERE j.name = a.job AND j.pruned >= a.slot)
$body$;

CREATE FUNCTION {schema}.claim(
    jobs json, slots json, tokens json, instances json, leases json, overlap_rules json,
    max_attempts json, max_lates json, modes json, triggers json
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
            a.max_attempts::integer, a.max_late::double precision, a.mode, a.trigger
        )::{schema}.asked_claim
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
            CASE WHEN {schema}.has_ended(run) THEN 'done' ELSE 'running' END,
            CASE WHEN NOT {schema}.has_ended(run) THEN run.attempt END,
            NULL, run.instance, NULL, false, NULL
        )::{schema}.claim_answer
        FROM unnest(asked) AS a
        JOIN {schema}.runs AS run ON run.job = a.job AND run.slot = a.slot
        WHERE {schema}.has_ended(run)
        OR run.token <> a.token AND {schema}.is_alive(run, now)
    );
    waiting := ARRAY(
        SELECT a::{schema}.asked_claim FROM unnest(asked) AS a
        WHERE a.place NOT IN (SELECT place FROM unnest(answers))
    );
    -- Nothing is open of the job and nothing was pruned, so that only the claim itself decides.
    answers := answers || ARRAY(
        SELECT ROW(
            a.place, CASE WHEN a.mode = 'takeover' THEN 'none' ELSE 'late' END,
            NULL, NULL, NULL, NULL, false, NULL
        )::{schema}.claim_answer
        FROM {schema}.free_claims(waiting) AS a
        WHERE a.mode = 'takeover' OR now - a.slot > a.max_late
    );
    IF cardinality(answers) < cardinality(asked) THEN
        waiting := ARRAY(
            SELECT a::{schema}.asked_claim FROM unnest(asked) AS a
            WHERE a.place NOT IN (SELECT place FROM unnest(answers))
        );
        PERFORM {schema}.lock_jobs(ARRAY(SELECT DISTINCT a.job FROM unnest(waiting) AS a), now);
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
                a.fence, NULL, NULL, false, NULL
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
