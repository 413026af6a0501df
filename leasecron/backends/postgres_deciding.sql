-- What is decided about one run, by the claim table.
CREATE OR REPLACE FUNCTION {schema}.has_ended(run {schema}.runs) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $body$
    SELECT run.state NOT IN ('claimed', 'released')
$body$;

CREATE OR REPLACE FUNCTION {schema}.is_alive(run {schema}.runs, now bigint) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $body$
    SELECT NOT run.lease_ended AND run.lease_until > now
$body$;

-- A slot that is still to come: whoever claims it has a clock that is ahead of the server's.
CREATE OR REPLACE FUNCTION {schema}.is_early(slot bigint, now bigint) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $body$
    SELECT slot > now + 1000
$body$;

CREATE OR REPLACE FUNCTION {schema}.texts(items json) RETURNS text[]
LANGUAGE sql IMMUTABLE AS $body$
    SELECT ARRAY(SELECT json_array_elements_text(items))
$body$;

-- Record the latest attempt of a run as lost; without effect where its record is there already.
CREATE OR REPLACE FUNCTION {schema}.record_lost(run {schema}.runs, now bigint)
RETURNS {schema}.results LANGUAGE plpgsql VOLATILE AS $body$
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
CREATE OR REPLACE FUNCTION {schema}.close_run(run {schema}.runs, ended text, now bigint)
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
CREATE OR REPLACE FUNCTION {schema}.decide(
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
