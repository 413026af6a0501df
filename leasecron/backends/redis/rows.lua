-- What the scripts of a call share: the rows of runs, as they are and as the call changes them.
--
-- A call reads what it needs, decides, and writes all its changes at its end, by a few commands for
-- the whole batch. So a call that fails before has changed nothing.

local meta = call('HMGET', META, 'version', 'fence')
if meta[1] ~= ARGV[1] then
    return redis.error_reply('LOST ' .. (meta[1] or ''))
end

local now = now_ms()
local asked = cjson.decode(ARGV[2])
local encode = cjson.encode
local pack, unpacked = cmsgpack.pack, cmsgpack.unpack

local ENDED = {success = true, failed = true, abandoned = true, replaced = true}
local MOST = 1000 -- values of one command: Lua has no room on its stack for very many

-- Numbers as text in the order of their values, also those below zero.
local function ordered(number)
    return string.format('%016.0f', number + 1e15)
end

-- What the names of all entries of a job begin with, and those of no other job.
local function head_of(job)
    return #job .. ':' .. job .. ':'
end

local function place_of(job, slot)
    return head_of(job) .. ordered(slot)
end

-- Call a command for values, or pairs of them, however many there are.
local function write(command, key, values)
    for first = 1, #values, MOST do
        call(command, key, unpack(values, first, math.min(first + MOST - 1, #values)))
    end
end

-- Return the values of fields, false for each that is not there.
local function read(key, fields)
    if #fields <= MOST then
        return #fields > 0 and call('HMGET', key, unpack(fields)) or {}
    end
    local values = {}
    for first = 1, #fields, MOST do
        local last = math.min(first + MOST - 1, #fields)
        for _, value in ipairs(call('HMGET', key, unpack(fields, first, last))) do
            values[#values + 1] = value
        end
    end
    return values
end

-- The rows that are known, packed, by their place; false where there is none.
local rows = {}
local changed_rows, gone_rows = {}, {}

local function load_rows(places)
    local found = read(RUNS, places)
    for i, place in ipairs(places) do
        rows[place] = found[i]
    end
end

local function row_at(job, slot, place)
    local packed = rows[place]
    if packed == nil then
        packed = call('HGET', RUNS, place)
        rows[place] = packed
    end
    if not packed then
        return nil
    end
    local state, token, attempt, lost, fence, released_fence, instance, trigger, claimed_at,
        lease_until, lease_ended, retries, origin, cancelled = unpacked(packed)
    local row = {
        job = job, slot = slot, place = place, state = state, token = token, attempt = attempt,
        lost = lost, fence = fence, released_fence = released_fence, instance = instance,
        trigger = trigger, claimed_at = claimed_at, lease_until = lease_until,
        lease_ended = lease_ended, retries = retries or 0, origin = origin or 'scheduled',
    }
    if cancelled then -- as few are; one value more, and Lua makes the table twice as large
        row.cancelled = true
    end
    return row
end

local function is_alive(row)
    return not row.lease_ended and row.lease_until > now
end

-- The slots of a job whose runs have not ended, or have ended with their lease kept.
local open_slots, changed_open = {}, {}

local function load_open(jobs)
    local names = {} -- each once: many runs of a call may be of one job, and many of its open
    for _, job in ipairs(jobs) do
        if not open_slots[job] then
            open_slots[job] = {}
            names[#names + 1] = job
        end
    end
    local found = read(OPEN, names)
    for i, job in ipairs(names) do
        local slots = open_slots[job]
        for _, slot in ipairs(found[i] and unpacked(found[i]) or {}) do
            slots[slot] = true
        end
    end
end

local function open_of(job)
    if not open_slots[job] then
        load_open({job})
    end
    return open_slots[job]
end

local function set_open(job, slot, is_open)
    local slots = open_of(job)
    if slots[slot] ~= is_open then
        slots[slot] = is_open
        changed_open[job] = true
    end
end

-- Of the runs that have not ended, those that are no slots of the schedule: their jobs by place.
local asked_for, no_more_asked_for = {}, {}

local function put_packed(place, packed)
    rows[place] = packed
    changed_rows[#changed_rows + 1] = place
    changed_rows[#changed_rows + 1] = packed
end

-- Keep a row that is as open as it was before.
local function put_same(row)
    local packed = pack(
        row.state, row.token, row.attempt, row.lost, row.fence, row.released_fence, row.instance,
        row.trigger, row.claimed_at, row.lease_until, row.lease_ended
    )
    if row.retries > 0 or row.origin ~= 'scheduled' or row.cancelled then
        packed = packed .. pack(row.retries, row.origin, row.cancelled) -- as few rows have
    end
    put_packed(row.place, packed)
end

local function put(row)
    put_same(row)
    set_open(row.job, row.slot, not (ENDED[row.state] and row.lease_ended) or nil)
    if row.origin == 'scheduled' then
        return
    elseif ENDED[row.state] then
        no_more_asked_for[#no_more_asked_for + 1] = row.place
    else
        asked_for[#asked_for + 1] = row.place
        asked_for[#asked_for + 1] = row.job
    end
end

-- All runs are listed in the order of their slots. Those that stand in place of older ones, since
-- the schedule has begun them, are listed by their places; those of backfills apart, and the others
-- of their job apart from both.
local BACKFILLED, APART = '+', '-'
local new_slots, gone_slots = {}, {}

local function end_lease(row)
    row.lease_until = math.min(row.lease_until, now)
    row.lease_ended = true
end

-- Write all rows that were changed.
local function save()
    write('HSET', RUNS, changed_rows)
    write('HDEL', RUNS, gone_rows)
    write('ZADD', SLOTS, new_slots)
    write('ZREM', SLOTS, gone_slots)
    write('HSET', ASKED, asked_for)
    write('HDEL', ASKED, no_more_asked_for)
    local opened, closed = {}, {}
    for job in pairs(changed_open) do
        local slots = {}
        for slot in pairs(open_slots[job]) do
            slots[#slots + 1] = slot
        end
        if #slots > 0 then
            opened[#opened + 1] = job
            opened[#opened + 1] = pack(slots)
        else
            closed[#closed + 1] = job
        end
    end
    write('HSET', OPEN, opened)
    write('HDEL', OPEN, closed)
end
