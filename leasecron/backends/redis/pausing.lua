-- What the scripts share that look at the pauses of jobs: of each when it began, when it ended
-- (false while it lasts), and its note. One that lasts is the last of its job.

local NO_PAUSES = {}
local pauses, changed_pauses = {}, {}

local function load_pauses(jobs)
    local has_any = call('EXISTS', PAUSES) == 1 -- as few stores have
    local names = {}
    for _, job in ipairs(jobs) do
        if not pauses[job] then
            pauses[job] = NO_PAUSES
            names[#names + 1] = has_any and job or nil
        end
    end
    local found = read(PAUSES, names)
    for i, job in ipairs(names) do
        pauses[job] = found[i] and unpacked(found[i]) or NO_PAUSES
    end
end

-- Pause a job, whose pauses are loaded, from now on; without effect while it is paused.
local function pause(job, note)
    local found = {unpack(pauses[job])}
    local last = found[#found]
    if last and not last[2] then
        return
    elseif last and last[2] >= now then -- begun in the moment in which that one ended
        found[#found] = {last[1], false, note}
    else
        found[#found + 1] = {now, false, note}
    end
    pauses[job] = found
    changed_pauses[job] = true
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
