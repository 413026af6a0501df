-- Remove what need not be kept of some jobs, at most so many entries; 1 where some are left.
--
-- What is old comes first in either order, with few exceptions: such as a run that took for days.
-- So the look at a job ends after a number of entries of which none may go: a script keeps
-- everybody waiting, and what is behind those is found once they have grown old.

local jobs, keeps, counts, ages, most_records, room = unpack(asked)
local AT_ONCE = 100

-- Return the number at the end of an entry: a slot, or a fence.
local function number_of(place, head)
    return string.sub(place, #head + 1) - 1e15
end

-- Return entries of a list from the oldest on that may go, one more than there is room for.
local function oldest(key, head, last, most, may_go)
    local found, offset = {}, 0
    while #found <= room and offset < most do
        local places = call(
            'ZRANGEBYLEX', key, '[' .. head, last, 'LIMIT', offset, math.min(AT_ONCE, most - offset)
        )
        local before = #found
        for i, place in ipairs(places) do
            if may_go(place, offset + i) then
                found[#found + 1] = place
            end
        end
        offset = offset + #places
        if #found == before then
            break
        end
    end
    return found
end

-- The rows of runs that can decide nothing any more: not the newest of the job, and both the slot
-- and the end of the lease long past.
local function old_runs(job, keep)
    local head = head_of(job)
    local newest = call('ZREVRANGEBYLEX', SLOTS, '(' .. head .. ':', '[' .. head, 'LIMIT', 0, 1)[1]
    if not newest then
        return {}
    end
    local limit = math.max(-1e15, math.min(math.ceil(now - keep), number_of(newest, head)))
    return oldest(SLOTS, head, '(' .. head .. ordered(limit), 1e9, function(place)
        local row = row_at(job, number_of(place, head), place)
        return not row or not is_alive(row) and math.max(row.slot, row.lease_until) + keep < now
    end)
end

local function remove_runs(job, places, last)
    local head = head_of(job)
    local gone = {}
    for i = 1, last do
        local slot = number_of(places[i], head)
        local row = row_at(job, slot, places[i])
        if row and row.state == 'claimed' then
            record_lost(row) -- of an attempt that nobody saw the end of
        end
        set_open(job, slot, nil)
        gone[i] = places[i]
    end
    if last > 0 then
        local mark = number_of(gone[last], head)
        local known = tonumber(call('HGET', PRUNED, job) or mark)
        call('HSET', PRUNED, job, digits(math.max(mark, known)))
        call('HSETNX', JOBS, job, pack(now, now, ''))
        write('HDEL', RUNS, gone)
        write('ZREM', SLOTS, gone)
    end
end

local function old_records(job, count, age)
    local head = head_of(job)
    local first, last = '[' .. head, '(' .. head .. ':'
    local known = call('ZLEXCOUNT', HISTORY, first, last)
    local most = math.max(0, known - math.min(count, most_records))
    return oldest(HISTORY, head, last, most, function(place, rank)
        if rank <= known - most_records then
            return true
        end
        local text = call('HGET', RECORDS, string.sub(place, #head + 1))
        return not text or tonumber(string.match(text, '^%[(%-?%d+),')) < now - age
    end)
end

local function remove_records(job, places, last)
    local head = head_of(job)
    local fields, entries = {}, {}
    for i = 1, last do
        fields[i] = string.sub(places[i], #head + 1)
        entries[2 * i - 1] = places[i]
        entries[2 * i] = EVERY_JOB .. fields[i]
    end
    write('HDEL', RECORDS, fields)
    write('ZREM', HISTORY, entries)
end

for i, job in ipairs(jobs) do
    local runs = old_runs(job, keeps[i])
    remove_runs(job, runs, math.min(#runs, room))
    save() -- before the records are counted
    local is_left = #runs > room
    room = room - math.min(#runs, room)
    local records = old_records(job, counts[i], ages[i])
    remove_records(job, records, math.min(#records, room))
    if is_left or #records > room then
        return 1
    end
    room = room - #records
end
return 0
