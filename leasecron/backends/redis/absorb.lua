-- What another store hands over: kept where it is not there yet, and a second time without effect.
-- How many jobs, runs and records were new is answered; and, since two sources may have given the
-- same fences, how many records are of other attempts than what has their place.

local names, jobs_known, marks, jobs, slots, rows_known, fences_of, records_of, texts, paused,
    pauses_known, backfills_known, next_fence = unpack(asked)

local known = read(JOBS, names)
local changes, pruned = {}, {}
local new_jobs, new_runs, new_results, clashing = 0, 0, 0, 0
for i, name in ipairs(names) do
    local first, last, schedule, once_at = unpack(jobs_known[i])
    once_at = once_at ~= cjson.null and once_at or nil
    if known[i] then
        local before, fixed
        before, last, schedule, fixed = unpacked(known[i])
        first, once_at = math.min(first, before), fixed or once_at
    else
        new_jobs = new_jobs + 1
    end
    changes[#changes + 1] = name
    changes[#changes + 1] = pack(first, last, schedule, once_at)
    if marks[i] ~= cjson.null then
        local mark = tonumber(call('HGET', PRUNED, name) or marks[i])
        pruned[#pruned + 1] = name
        pruned[#pruned + 1] = digits(math.max(mark, marks[i]))
    end
end
write('HSET', JOBS, changes)
write('HSET', PRUNED, pruned)

local places = {}
for i, job in ipairs(jobs) do
    places[i] = place_of(job, slots[i])
end
load_rows(places)
load_open(jobs)
for i, job in ipairs(jobs) do
    if not row_at(job, slots[i], places[i]) then
        local row = {job = job, slot = slots[i], place = places[i]}
        row.state, row.token, row.attempt, row.lost, row.fence, row.released_fence, row.instance,
            row.trigger, row.claimed_at, row.lease_until, row.lease_ended, row.retries, row.origin,
            row.cancelled = unpack(rows_known[i])
        if row.released_fence == cjson.null then
            row.released_fence = nil
        end
        new_slots[#new_slots + 1] = 0
        new_slots[#new_slots + 1] = listed_as(row)
        put(row)
        new_runs = new_runs + 1
    end
end

local function attempt_of(text)
    local _ended_at, _fence, job, slot, attempt = unpack(cjson.decode(text))
    return place_of(job, slot) .. ':' .. attempt
end

local fields = {}
for i in ipairs(records_of) do
    fields[i] = ordered(fences_of[i])
end
local known_records = read(RECORDS, fields)
for i, job in ipairs(records_of) do
    if not known_records[i] then
        new_results = new_results + 1
        record(job, fences_of[i], texts[i])
    elseif attempt_of(known_records[i]) ~= attempt_of(texts[i]) then
        clashing = clashing + 1
    end
end

-- Keep a pause unless it is there already, or the job is paused anyway.
local function add_pause(job, since, ended, note)
    local found = {unpack(pauses[job])}
    for _, each in ipairs(found) do
        if each[1] == since or not (each[2] or ended) then
            return
        end
    end
    found[#found + 1] = {since, ended, note}
    table.sort(found, function(a, b) return (a[2] or math.huge) < (b[2] or math.huge) end)
    pauses[job] = found
    changed_pauses[job] = true
end

load_pauses(paused)
for i, job in ipairs(paused) do
    add_pause(job, unpack(pauses_known[i]))
end
save_records()
save()
save_pauses()
for _, values in ipairs(backfills_known) do
    local row = backfill_from(values)
    if not backfill_of(row.job) then
        put_backfill(row)
    end
end

if next_fence > tonumber(meta[2]) + 1 then
    call('HSET', META, 'fence', digits(next_fence - 1))
end
return {new_jobs, new_runs, new_results, clashing}
