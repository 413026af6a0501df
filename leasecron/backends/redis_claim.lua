-- Decide claims by the claim table, one after the other, as if they had come one by one.

local jobs, slots, tokens, instances, leases, overlaps, limits, max_lates, modes, triggers =
    unpack(asked)

-- Milliseconds that a slot may be ahead of the server's clock, so that nobody has a run before its
-- time. Whose clock is right has no reason to ask.
local EARLY = 1000

local places = {}
for i, job in ipairs(jobs) do
    places[i] = place_of(job, slots[i])
end
load_rows(places)
load_open(jobs)
local pruned = read(PRUNED, jobs)
local fence = tonumber(meta[2])
local last_fence = fence

local function answer(outcome, attempt, given, holder, other, closed, abandoned)
    return string.format(
        '["%s",%s,%s,%s,%s,[%s],%s]', outcome, attempt or 'null', given and digits(given) or 'null',
        holder and encode(holder) or 'null', other and digits(other) or 'null',
        closed and table.concat(closed, ',') or '', abandoned and 'true' or 'false'
    )
end

-- The open runs of a job: of those with a live lease who holds them, of the others their rows.
local standings = {}

local function standing_of(job)
    local found = standings[job]
    if not found then
        found = {live = {}, over = {}}
        for slot in pairs(open_of(job)) do
            local row = row_at(job, slot, place_of(job, slot))
            if row and is_alive(row) then
                found.live[slot] = row.instance
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
    end_lease(row)
    put_over(row)
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

-- Leave nothing behind that another holder could still believe in: an older run is closed, and a
-- lease that the winner takes for over is ended for everybody.
local function settle(i, closed)
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
        if not ENDED[other.state] and other.slot < slot then
            close(other, 'replaced', closed)
        elseif not other.lease_ended and (overlaps[i] == 'skip' or ENDED[other.state]) then
            end_lease(other)
            put_over(other)
        end
    end
end

local function win(i, row)
    local job, slot, place = jobs[i], slots[i], places[i]
    local attempt, lost, released, closed = 1, 0, nil, {}
    if row then
        count_lost(row, closed)
        attempt, lost, released = row.attempt + 1, row.lost, row.released_fence
    else
        add_slot(job, slot, place)
    end
    -- Never behind the clock: a fence that the server gave and forgot, in a crash or a failover,
    -- is not given again.
    fence = math.max(fence + 1, now)
    settle(i, closed)
    put_packed(place, pack(
        'claimed', tokens[i], attempt, lost, fence, released, instances[i], triggers[i], now,
        now + leases[i], false
    ))
    set_open(job, slot, true)
    if standings[job] then
        standings[job].live[slot] = instances[i]
        standings[job].over[slot] = nil
    end
    if attempt == 1 and #closed == 0 then
        return digits(fence) -- what most answers are, so said in few words
    end
    return answer('won', attempt, fence, nil, nil, closed)
end

local function overlap(i)
    local job = jobs[i]
    if overlaps[i] == 'allow' or not next(open_of(job)) then
        return nil
    end
    local live = standing_of(job).live
    local oldest
    for slot in pairs(live) do
        if slot ~= slots[i] and (not oldest or slot < oldest) then
            oldest = slot
        end
    end
    return oldest and answer('overlap', nil, nil, live[oldest], oldest)
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
        if now - slot > max_lates[i] then
            return answer('late')
        end
    elseif ENDED[row.state] then
        return answer('done', nil, nil, row.instance)
    elseif is_alive(row) then
        if row.token ~= tokens[i] then
            return answer('running', row.attempt, nil, row.instance)
        end
        -- The answer to an earlier try was lost. Its holder trusts the lease from this call on.
        row.lease_until = now + leases[i]
        put_same(row)
        return answer('won', row.attempt, row.fence)
    elseif claimed_since(job, slot, row.place) then
        close(row, 'replaced', closed)
        return answer('done', nil, nil, row.instance, nil, closed)
    elseif row.lost + (row.state == 'claimed' and 1 or 0) >= limits[i] then
        close(row, 'abandoned', closed)
        return answer('done', nil, nil, row.instance, nil, closed, true)
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
save()
return '[' .. table.concat(answers, ',') .. ']'
