-- What the scripts share that look at the pauses of jobs: of each when it began, when it ended (false
-- while it lasts), and its note. One that lasts is the last of its job.

local pauses, changed_pauses = {}, {}

local function load_pauses(jobs)
    -- Few jobs are ever paused, and all claims look here.
    local found = call('EXISTS', PAUSES) == 1 and read(PAUSES, jobs) or NOTHING
    for i, job in ipairs(jobs) do
        pauses[job] = found[i] and unpacked(found[i]) or NOTHING
    end
end

local function pauses_of(job)
    if not pauses[job] then
        load_pauses({job})
    end
    return pauses[job]
end

local function put_pauses(job, found)
    pauses[job] = found
    changed_pauses[job] = true
end

-- Say whether a job is paused now, or was at a slot, if that is given.
local function is_paused(job, slot)
    for _, each in ipairs(pauses_of(job)) do
        local since, ended = each[1], each[2]
        if not ended or slot and since <= slot and slot <= ended then
            return true
        end
    end
    return false
end

-- Pause a job from now on; without effect while it is paused.
local function pause(job, note)
    local found = {unpack(pauses_of(job))}
    local last = found[#found]
    if last and not last[2] then
        return
    elseif last and last[2] >= now then -- begun in the moment in which that one ended
        found[#found] = {last[1], false, note}
    else
        found[#found + 1] = {now, false, note}
    end
    put_pauses(job, found)
end

local function resume(job)
    local found = pauses_of(job)
    local last = found[#found]
    if last and not last[2] then
        last[2] = math.max(now, last[1])
        put_pauses(job, found)
    end
end

-- Keep a pause that another store knows of, unless it is there already or the job is paused anyway.
local function add_pause(job, since, ended, note)
    local found = {unpack(pauses_of(job))}
    for _, each in ipairs(found) do
        if each[1] == since or not (each[2] or ended) then
            return
        end
    end
    found[#found + 1] = {since, ended, note}
    table.sort(found, function(a, b) return (a[2] or math.huge) < (b[2] or math.huge) end)
    put_pauses(job, found)
end

-- Forget the pauses of a job that ended before a time.
local function forget_pauses(job, before)
    local found = pauses_of(job)
    local kept = {}
    for _, each in ipairs(found) do
        if not each[2] or each[2] >= before then
            kept[#kept + 1] = each
        end
    end
    if #kept < #found then
        put_pauses(job, kept)
    end
end

local function save_pauses()
    for job in pairs(changed_pauses) do
        if #pauses[job] > 0 then
            call('HSET', PAUSES, job, pack(pauses[job]))
        else
            call('HDEL', PAUSES, job)
        end
    end
end
