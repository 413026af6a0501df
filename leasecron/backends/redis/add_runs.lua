-- Put in runs that nobody has begun, and tell whoever listens of them. Repeated, it says the same.

local jobs, slots, instances, triggers, sender = unpack(asked)

local places, answers, can_be_begun = {}, {}, {}
for i, job in ipairs(jobs) do
    places[i] = place_of(job, slots[i])
end
load_rows(places)
load_open(jobs)
for i, job in ipairs(jobs) do
    local row = row_at(job, slots[i], places[i])
    local is_new = not row
    if is_new then
        row = add_run(job, slots[i], places[i], instances[i], triggers[i], 'released')
    end
    -- Who has begun it stands in the place of whoever asked for it.
    local is_its_own = row.attempt > 0 or row.instance == instances[i]
    local is_added = is_new or (row.origin ~= 'scheduled' and is_its_own)
    if is_added and row.state == 'released' then
        can_be_begun[#can_be_begun + 1] = row
    end
    answers[i] = is_added and '1' or '0'
end
save()
tell(sender, can_be_begun)
return table.concat(answers)
