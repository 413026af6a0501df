-- Remove what need not be kept of some jobs, at most so many entries; 1 where some are left.
--
-- What is old comes first in either order, with few exceptions: such as a run that took for days.
-- So the look at a job ends after a number of entries of which none may go: a script keeps
-- everybody waiting, and what is behind those is found once they have grown old.

local jobs, keeps, counts, ages, most_records, room = unpack(asked)
local AT_ONCE = 100

-- Return the number at the end of a name: a slot, or a fence.
local function number_of(name, head)
    return string.sub(name, #head + 1) - 1e15
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

-- Return the newest slot of a list of runs.
local function newest_of(first)
    local found = call('ZREVRANGEBYLEX', SLOTS, '(' .. first .. ':', '[' .. first, 'LIMIT', 0, 1)[1]
    return found and number_of(found, first) or -math.huge
end

-- The names in the list of runs that can decide nothing any more: both the slot and the end of the
-- lease are long past. On the job's newest one, by schedule or in a backfill, does what replaces
-- what; a run that nobody has begun is to be run.
local function old_runs(job, keep)
    local head = head_of(job)
    local newest = math.max(newest_of(head), newest_of(BACKFILLED .. head))
    local function listed_by(first, limit)
        local last = '(' .. first .. ordered(math.max(-1e15, limit))
        return oldest(SLOTS, first, last, 1e9, function(name)
            local slot = number_of(name, first)
            local row = row_at(job, slot, place_of(job, slot))
            if not row then
                return true
            elseif is_alive(row) or row.attempt == 0 and not ENDED[row.state] then
                return false
            end
            return (row.origin == 'manual' or slot < newest)
                and math.max(slot, row.lease_until) + keep < now
        end)
    end
    local limit = math.ceil(now - keep)
    local names = {}
    for _, apart in ipairs({'', BACKFILLED, APART}) do
        local last = apart == APART and limit or math.min(limit, newest)
        for _, name in ipairs(listed_by(apart .. head, last)) do
            names[#names + 1] = name
        end
    end
    return names
end

local function remove_runs(job, names, last)
    local head = head_of(job)
    local mark = tonumber(call('HGET', PRUNED, job) or -math.huge)
    local before = mark
    for i = 1, last do
        local apart = string.sub(names[i], 1, #names[i] - #ordered(0) - #head)
        local slot = number_of(names[i], apart .. head)
        local place = place_of(job, slot)
        local row = row_at(job, slot, place)
        if row and row.state == 'claimed' then
            record_lost(row) -- of an attempt that nobody saw the end of
        end
        remove(row or {job = job, slot = slot, place = place, origin = 'scheduled'}, names[i])
        if apart == '' or row and row.origin ~= 'manual' then
            mark = math.max(mark, slot)
        end
    end
    if mark > before then
        call('HSET', PRUNED, job, digits(mark))
    end
    if last > 0 then
        call('HSETNX', JOBS, job, pack(now, now, ''))
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

-- Forget the pauses of a job that ended before a time.
local function forget_pauses(job, before)
    local found, kept = pauses[job], {}
    for _, each in ipairs(found) do
        if not each[2] or each[2] >= before then
            kept[#kept + 1] = each
        end
    end
    if #kept < #found then
        pauses[job] = kept
        changed_pauses[job] = true
    end
end

load_pauses(jobs)
for i, job in ipairs(jobs) do
    local runs = old_runs(job, keeps[i])
    remove_runs(job, runs, math.min(#runs, room))
    save_records()
    save() -- before the records are counted
    changed_rows, gone_rows, new_slots, gone_slots, changed_open = {}, {}, {}, {}, {}
    asked_for, no_more_asked_for, new_records, new_fences = {}, {}, {}, {}
    local is_left = #runs > room
    room = room - math.min(#runs, room)
    local records = old_records(job, counts[i], ages[i])
    remove_records(job, records, math.min(#records, room))
    if is_left or #records > room then
        save_pauses()
        return 1
    end
    room = room - #records
    forget_pauses(job, now - math.max(keeps[i], ages[i]))
end
save_pauses()
return 0
