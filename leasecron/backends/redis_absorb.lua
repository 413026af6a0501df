-- What another store hands over: kept where it is not there yet, and a second time without effect.

local names, jobs_known, marks, jobs, slots, rows_known, fences_of, records_of, texts, next_fence =
    unpack(asked)

local known = read(JOBS, names)
local changes, pruned = {}, {}
for i, name in ipairs(names) do
    local first, last, schedule = unpack(jobs_known[i])
    if known[i] then
        local before
        before, last, schedule = unpacked(known[i])
        first = math.min(first, before)
    end
    changes[#changes + 1] = name
    changes[#changes + 1] = pack(first, last, schedule)
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
            row.trigger, row.claimed_at, row.lease_until, row.lease_ended = unpack(rows_known[i])
        if row.released_fence == cjson.null then
            row.released_fence = nil
        end
        add_slot(job, row.slot, row.place)
        put(row)
    end
end
for i, job in ipairs(records_of) do
    record(job, fences_of[i], texts[i])
end
save()

if next_fence > tonumber(meta[2]) + 1 then
    call('HSET', META, 'fence', digits(next_fence - 1))
end
return 1
