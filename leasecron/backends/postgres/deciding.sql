-- What is decided about one run, by the claim table.
CREATE OR REPLACE FUNCTION {schema}.has_ended(run {schema}.runs) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $body$
    SELECT run.state NOT IN ('claimed', 'released')
$body$;

CREATE OR REPLACE FUNCTION {schema}.is_alive(run {schema}.runs, now bigint) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $body$
    SELECT NOT run.lease_ended AND run.lease_until > now
$body$;

-- What is not asked for is a slot of the schedule.
CREATE OR REPLACE FUNCTION {schema}.origin_of(trigger text) RETURNS text
LANGUAGE sql IMMUTABLE AS $body$
    SELECT CASE WHEN trigger IN ('manual', 'backfill') THEN trigger ELSE 'scheduled' END
$body$;

-- A slot that is still to come: whoever claims it has a clock that is ahead of the server's.
CREATE OR REPLACE FUNCTION {schema}.is_early(slot bigint, now bigint) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $body$
    SELECT slot > now + 1000
$body$;

-- How many attempts have lost their lease. One that nobody released has too, once it is superseded.
CREATE OR REPLACE FUNCTION {schema}.losses_of(run {schema}.runs) RETURNS integer
LANGUAGE sql IMMUTABLE AS $body$
    SELECT run.lost + (run.state = 'claimed')::integer
$body$;

-- A newer run makes up for one whose lease is over: one that was begun, and by the schedule. For a
-- run that somebody asked for none does.
CREATE OR REPLACE FUNCTION {schema}.is_replaced(run {schema}.runs, now bigint) RETURNS boolean
LANGUAGE sql STABLE AS $body$
    SELECT run.cancelled OR run.origin = 'scheduled' AND EXISTS (
        SELECT FROM {schema}.runs AS n
        WHERE n.job = run.job AND n.slot > run.slot AND n.slot <= now
        AND n.attempt > 0 AND n.origin = 'scheduled'
    )
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
        run.claimed_at, greatest(run.claimed_at, least(run.lease_until, now)), NULL, run.retries
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
        lease_ended = true,
        cancelled = false
    WHERE job = run.job AND slot = run.slot;
    RETURN closed;
END
$body$;

-- Keep a slot that has to wait for an older run; of those that wait, only the newest will be begun.
-- With the rule 'cancel' the older runs of the schedule are told to make way.
CREATE OR REPLACE FUNCTION {schema}.wait_behind(
    other {schema}.runs, item {schema}.asked_claim, now bigint, OUT answer {schema}.claim_answer
) LANGUAGE plpgsql VOLATILE AS $body$
DECLARE
    run {schema}.runs;
    is_newest boolean;
BEGIN
    answer.place := item.place;
    answer.abandoned := false;
    answer.closed := '{}';
    PERFORM {schema}.close_run(o, 'replaced', now) FROM {schema}.runs AS o
    WHERE o.job = item.job AND o.slot < item.slot
    AND o.attempt = 0 AND o.origin = 'scheduled' AND o.state IN ('claimed', 'released');

    run := ROW(
        item.job, item.slot, 'released', '', 0, 0, 0, NULL, item.instance, item.trigger, now, now,
        true, 0, {schema}.origin_of(item.trigger), false
    );
    PERFORM FROM {schema}.runs AS o
    WHERE o.job = item.job AND o.slot > item.slot
    AND o.attempt = 0 AND o.origin = 'scheduled' AND o.state IN ('claimed', 'released');
    is_newest := NOT FOUND;
    IF is_newest AND NOT {schema}.is_replaced(run, now) THEN
        answer.outcome := 'overlap';
        answer.holder := other.instance;
        answer.other := other.slot;
        IF item.overlap = 'cancel' THEN
            UPDATE {schema}.runs AS o SET cancelled = true
            WHERE o.job = item.job AND o.slot < item.slot
            AND ({schema}.is_alive(o, now) OR NOT {schema}.has_ended(o))
            AND o.attempt > 0 AND o.origin = 'scheduled' AND NOT o.cancelled;
        END IF;
    ELSE
        run.state := 'replaced';
        answer.outcome := 'done';
        answer.holder := item.instance;
    END IF;
    INSERT INTO {schema}.runs SELECT run.*;
END
$body$;

-- Begin the next attempt of a run, of a new one the first.
CREATE OR REPLACE FUNCTION {schema}.win(
    run {schema}.runs, item {schema}.asked_claim, now bigint, OUT answer {schema}.claim_answer
) LANGUAGE plpgsql VOLATILE AS $body$
DECLARE
    won {schema}.runs;
    other {schema}.runs;
BEGIN
    answer.place := item.place;
    answer.abandoned := false;
    answer.outcome := 'won';
    answer.attempt := coalesce(run.attempt, 0) + 1;
    answer.fence := nextval({fences});
    answer.retries := run.retries;
    IF answer.attempt = 1 THEN
        answer.trigger := run.trigger;
    END IF;
    IF run.state = 'claimed' THEN
        answer.closed := ARRAY[{schema}.record_lost(run, now)];
    END IF;
    INSERT INTO {schema}.runs VALUES (
        item.job, item.slot, 'claimed', item.token, answer.attempt,
        coalesce({schema}.losses_of(run), 0), answer.fence, NULL, item.instance,
        coalesce(answer.trigger, item.trigger), now, now + item.lease, false
    )
    ON CONFLICT (job, slot) DO UPDATE SET
        state = 'claimed', token = excluded.token, attempt = excluded.attempt,
        lost = excluded.lost, fence = excluded.fence, instance = excluded.instance,
        trigger = excluded.trigger, claimed_at = excluded.claimed_at,
        lease_until = excluded.lease_until, lease_ended = false
    RETURNING * INTO won;

    -- Leave nothing behind that another holder could still believe in: an older run is closed, and
    -- a lease that the winner takes for over is ended for everybody.
    FOR other IN
        SELECT * FROM {schema}.runs AS o
        WHERE o.job = item.job AND o.slot <> item.slot AND NOT {schema}.is_alive(o, now)
        AND (o.state IN ('claimed', 'released') OR NOT o.lease_ended)
        ORDER BY o.slot
    LOOP
        IF NOT {schema}.has_ended(other) AND other.slot < won.slot
            AND won.origin = 'scheduled' AND other.origin = 'scheduled'
        THEN
            answer.closed := answer.closed || {schema}.close_run(other, 'replaced', now);
        ELSIF item.overlap <> 'allow' OR {schema}.has_ended(other) THEN
            UPDATE {schema}.runs SET lease_until = least(lease_until, now), lease_ended = true
            WHERE job = other.job AND slot = other.slot AND NOT lease_ended;
        END IF;
    END LOOP;
END
$body$;

-- Decide one claim by the claim table, its job and the job's open runs being locked.
CREATE OR REPLACE FUNCTION {schema}.decide(
    item {schema}.asked_claim, now bigint, OUT answer {schema}.claim_answer
) LANGUAGE plpgsql VOLATILE AS $body$
DECLARE
    known {schema}.jobs;
    run {schema}.runs;
    other {schema}.runs;
    is_new boolean;
    waits boolean;
BEGIN
    answer.place := item.place;
    answer.abandoned := false;
    SELECT * INTO known FROM {schema}.jobs WHERE name = item.job;
    SELECT * INTO run FROM {schema}.runs WHERE job = item.job AND slot = item.slot;
    is_new := NOT FOUND;

    IF is_new THEN
        IF item.mode = 'takeover' THEN
            answer.outcome := 'none';
            RETURN;
        ELSIF known.pruned >= item.slot AND known.pruned <= now THEN
            answer.outcome := 'done';
            RETURN;
        ELSIF {schema}.is_paused_at(known, item.slot) THEN
            answer.outcome := 'paused';
            RETURN;
        ELSIF now - item.slot > item.max_late THEN
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
            answer.retries := run.retries;
            IF run.attempt = 1 AND run.trigger <> item.trigger THEN
                answer.trigger := run.trigger;
            END IF;
        ELSE
            answer.outcome := 'running';
            answer.holder := run.instance;
        END IF;
        RETURN;
    ELSIF {schema}.is_replaced(run, now) THEN
        answer.outcome := 'done';
        answer.holder := run.instance;
        answer.closed := {schema}.close_run(run, 'replaced', now);
        RETURN;
    ELSIF {schema}.losses_of(run) >= item.max_attempts THEN
        answer.outcome := 'done';
        answer.holder := run.instance;
        answer.abandoned := true;
        IF item.pause_on_failure THEN
            PERFORM {schema}.begin_pause(item.job, {abandoned}, now);
        END IF;
        answer.closed := {schema}.close_run(run, 'abandoned', now);
        RETURN;
    ELSIF {schema}.is_paused(known) THEN
        answer.outcome := 'paused';
        RETURN;
    END IF;

    IF item.overlap <> 'allow' THEN
        SELECT * INTO other FROM {schema}.runs AS o
        WHERE o.job = item.job AND o.slot <> item.slot AND NOT o.lease_ended AND o.lease_until > now
        ORDER BY o.slot LIMIT 1;
        IF NOT FOUND AND item.overlap = 'queue' THEN
            -- An older run that was begun and given back, or whose holder is gone, has not ended.
            SELECT * INTO other FROM {schema}.runs AS o
            WHERE o.job = item.job AND o.slot < item.slot AND o.attempt > 0
            AND o.state IN ('claimed', 'released') AND NOT o.cancelled
            ORDER BY o.slot LIMIT 1;
        END IF;
        waits := item.overlap IN ('queue', 'cancel');
        IF other.origin = 'backfill' AND NOT waits THEN
            -- Runs of backfills cost the schedule no slot, if nothing else stands in the way.
            PERFORM FROM {schema}.runs AS o
            WHERE o.job = item.job AND o.slot <> item.slot AND NOT o.lease_ended
            AND o.lease_until > now AND o.origin <> 'backfill' LIMIT 1;
            waits := NOT FOUND;
        END IF;
        IF other.job IS NOT NULL AND is_new AND waits THEN
            answer := {schema}.wait_behind(other, item, now);
            RETURN;
        ELSIF other.job IS NOT NULL THEN
            answer.outcome := 'overlap';
            answer.holder := other.instance;
            answer.other := other.slot;
            RETURN;
        END IF;
    END IF;
    answer := {schema}.win(run, item, now);
END
$body$;
