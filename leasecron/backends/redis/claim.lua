-- Decide claims by the claim table, one after the other, as if they had come one by one.

local jobs, slots, tokens, instances, leases, overlaps, limits, max_lates, modes, triggers,
    pauses_on_failure = unpack(asked)

-- The note of a pause that no holder could write, since none was left.
local ABANDONED = 'a run has used up its attempts'

-- Milliseconds that a slot may be ahead of the server's clock, so that nobody has a run before its
-- time. Whose clock is right has no reason to ask.
local EARLY = 1000

local places = {}
for i, job in ipairs(jobs) do
    places[i] = place_of(job, slots[i])
end
load_rows(places)
load_open(jobs)
load_pauses(jobs)
local pruned = read(PRUNED, jobs)
local fence = tonumber(meta[2])
local last_fence = fence

local function answer(outcome, attempt, given, holder, other, closed, abandoned, retries, trigger)
    return string.format(
        '["%s",%s,%s,%s,%s,[%s],%s,%d,%s]',
        outcome, attempt or 'null', given and digits(given) or 'null',
        holder and encode(holder) or 'null', other and digits(other) or 'null',
        closed and table.concat(closed, ',') or '', abandoned and 'true' or 'false', retries or 0,
        trigger and encode(trigger) or 'null'
    )
end

-- The open runs of a job, by slot: those with a live lease, and the others.
local standings = {}

local function standing_of(job)
    local found = standings[job]
    if not found then
        found = {live = {}, over = {}}
        for slot in pairs(open_of(job)) do
            local row = row_at(job, slot, place_of(job, slot))
            if row and is_alive(row) then
                found.live[slot] = row
            else
                found.over[slot] = row
            end
        end
        standings[job] = found
    end
    return found
end

-- Note a run whose lease was found over, and was changed.
local function put_over(row)
    put(row)
    if standings[row.job] then
        standings[row.job].over[row.slot] = open_of(row.job)[row.slot] and row
    end
end

-- An attempt that nobody released has lost its lease, which is counted once it is superseded.
local function count_lost(row, closed)
    if row.state == 'claimed' then
        row.lost = row.lost + 1
        closed[#closed + 1] = record_lost(row)
    end
end

-- End a run in its holder's place. No token is like its own, so all that he still says is stale.
local function close(row, state, closed)
    count_lost(row, closed)
    row.state = state
    row.token = false
    row.cancelled = nil
    end_lease(row)
    put_over(row)
end

-- List a run that stands in place of older ones, also for those of the same call.
local new_slots_of = {}

local function add_slot(job, slot, place)
    new_slots[#new_slots + 1] = 0
    new_slots[#new_slots + 1] = place
    local slots = new_slots_of[job] or {}
    slots[#slots + 1] = slot
    new_slots_of[job] = slots
end

local function claimed_since(job, slot, place)
    if now <= slot then
        return false
    end
    for _, each in ipairs(new_slots_of[job] or {}) do
        if slot < each and each <= now then
            return true
        end
    end
    local found = call(
        'ZRANGEBYLEX', SLOTS, '(' .. place, '[' .. place_of(job, now), 'LIMIT', 0, 1
    )
    return #found > 0
end

-- Leave nothing behind that another holder could still believe in: an older run is closed, if both
-- are of the schedule, and a lease that the winner takes for over is ended for everybody.
local function settle(i, origin, closed)
    local job, slot = jobs[i], slots[i]
    if not next(open_of(job)) then
        return
    end
    local others = {}
    for each, other in pairs(standing_of(job).over) do
        if each ~= slot then
            others[#others + 1] = other
        end
    end
    table.sort(others, function(a, b) return a.slot < b.slot end)
    for _, other in ipairs(others) do
        local is_replaced = origin == 'scheduled' and other.origin == 'scheduled'
        if is_replaced and not ENDED[other.state] and other.slot < slot then
            close(other, 'replaced', closed)
        elseif not other.lease_ended and (overlaps[i] ~= 'allow' or ENDED[other.state]) then
            end_lease(other)
            put_over(other)
        end
    end
end

local function win(i, row)
    local job, slot, place = jobs[i], slots[i], places[i]
    local attempt, lost, released, closed, retries, origin = 1, 0, nil, {}, 0, 'scheduled'
    local trigger, put_in_by = triggers[i], nil
    if row then
        count_lost(row, closed)
        attempt, lost, released = row.attempt + 1, row.lost, row.released_fence
        retries, origin = row.retries, row.origin
        if attempt == 1 then
            trigger, put_in_by = row.trigger, row.trigger
        end
    end
    if attempt == 1 and origin == 'scheduled' then
        if row then
            gone_slots[#gone_slots + 1] = APART .. place
        end
        add_slot(job, slot, place)
    end
    -- Never behind the clock: a fence that the server gave and forgot, in a crash or a failover,
    -- is not given again.
    fence = math.max(fence + 1, now)
    settle(i, origin, closed)
    put_packed(place, pack(
        'claimed', tokens[i], attempt, lost, fence, released, instances[i], trigger, now,
        now + leases[i], false
    ) .. (row and pack(retries, origin) or ''))
    set_open(job, slot, true)
    if standings[job] then
        standings[job].live[slot] = {instance = instances[i], origin = origin}
        standings[job].over[slot] = nil
    end
    if not row and #closed == 0 then
        return digits(fence) -- what most answers are, so said in few words
    end
    return answer('won', attempt, fence, nil, nil, closed, false, retries, put_in_by)
end

-- Return the answer where another run of the job stands in the way.
local function overlap(i)
    local job, slot = jobs[i], slots[i]
    if overlaps[i] == 'allow' or not next(open_of(job)) then
        return nil
    end
    local standing = standing_of(job)
    local oldest, holder
    for each, other in pairs(standing.live) do
        if each ~= slot and (not oldest or each < oldest) then
            oldest, holder = each, other.instance
        end
    end
    if not oldest and overlaps[i] == 'queue' then
        -- An older run that was begun and given back, or whose holder is gone, has not ended.
        for each, other in pairs(standing.over) do
            local goes_on = other.attempt > 0 and not ENDED[other.state] and not other.cancelled
            if goes_on and each < (oldest or slot) then
                oldest, holder = each, other.instance
            end
        end
    end
    return oldest and answer('overlap', nil, nil, holder, oldest)
end

-- Say whether only runs of backfills stand in the way: those cost the schedule no slot.
local function is_behind_backfill(i)
    for each, other in pairs(standing_of(jobs[i]).live) do
        if each ~= slots[i] and other.origin ~= 'backfill' then
            return false
        end
    end
    return true
end

-- Tell the older runs of the schedule that are at work to make way.
local function cancel_older(job, slot)
    local standing = standing_of(job)
    for each in pairs(open_of(job)) do
        local row = each < slot and row_at(job, each, place_of(job, each))
        local goes_on = row and (standing.live[each] or not ENDED[row.state])
        if goes_on and row.attempt > 0 and row.origin == 'scheduled' and not row.cancelled then
            row.cancelled = true
            put_same(row)
            if standing.over[each] then
                standing.over[each] = row
            end
        end
    end
end

-- Keep a slot that has to wait for an older run; of those that wait, only the newest will run. With
-- the rule 'cancel' it has the older ones make way, unless it will not be begun itself.
local function wait(i, behind)
    local job, slot, place = jobs[i], slots[i], places[i]
    local standing = standing_of(job)
    local is_newest = not claimed_since(job, slot, place)
    for each, other in pairs(standing.over) do
        if other.attempt == 0 and other.origin == 'scheduled' then
            if each < slot then
                close(other, 'replaced', {}) -- and nothing is recorded, since it was not begun
            else
                is_newest = false
            end
        end
    end
    if is_newest and overlaps[i] == 'cancel' then
        cancel_older(job, slot)
    end
    local state = is_newest and 'released' or 'replaced'
    local row = add_run(job, slot, place, instances[i], triggers[i], state)
    standing.over[slot] = is_newest and row or nil
    return is_newest and behind or answer('done', nil, nil, instances[i])
end

-- Say whether a job is paused now, or was at a slot, if that is given.
local function is_paused(job, slot)
    for _, each in ipairs(pauses[job]) do
        local since, ended = each[1], each[2]
        if not ended or slot and since <= slot and slot <= ended then
            return true
        end
    end
    return false
end

local function decide(i)
    local job, slot = jobs[i], slots[i]
    local row = row_at(job, slot, places[i])
    local closed = {}
    if not row then
        if modes[i] == 'takeover' then
            return answer('none')
        end
        if slot > now + EARLY then
            return answer('early', nil, nil, nil, now) -- and when that was, for the wait
        end
        local mark = pruned[i] and tonumber(pruned[i])
        if mark and slot <= mark and mark <= now then
            return answer('done')
        end
        if is_paused(job, slot) then
            return answer('paused')
        end
        if now - slot > max_lates[i] then
            return answer('late')
        end
        local behind = overlap(i)
        if behind and (overlaps[i] ~= 'skip' or is_behind_backfill(i)) then
            return wait(i, behind)
        end
        return behind or win(i)
    elseif ENDED[row.state] then
        return answer('done', nil, nil, row.instance)
    elseif is_alive(row) then
        if row.token ~= tokens[i] then
            return answer('running', row.attempt, nil, row.instance)
        end
        -- The answer to an earlier try was lost. Its holder trusts the lease from this call on.
        row.lease_until = now + leases[i]
        put_same(row)
        local put_in_by = row.attempt == 1 and row.trigger ~= triggers[i] and row.trigger
        return answer('won', row.attempt, row.fence, nil, nil, nil, false, row.retries, put_in_by)
    elseif row.cancelled or row.origin == 'scheduled' and claimed_since(job, slot, row.place) then
        close(row, 'replaced', closed)
        return answer('done', nil, nil, row.instance, nil, closed)
    elseif row.lost + (row.state == 'claimed' and 1 or 0) >= limits[i] then
        if pauses_on_failure[i] then
            pause(job, ABANDONED)
        end
        close(row, 'abandoned', closed)
        return answer('done', nil, nil, row.instance, nil, closed, true)
    elseif is_paused(job) then
        return answer('paused')
    end
    return overlap(i) or win(i, row)
end

local answers = {}
for i = 1, #jobs do
    answers[i] = decide(i)
end
if fence ~= last_fence then
    call('HSET', META, 'fence', digits(fence))
end
save_records()
save()
save_pauses()
return '[' .. table.concat(answers, ',') .. ']'
