-- Give runs back unfinished; of one that has ended, end the kept lease and nothing else.

local jobs, slots, tokens, counted, sender = unpack(asked)

local places, answers, given_back = {}, {}, {}
for i, job in ipairs(jobs) do
    places[i] = place_of(job, slots[i])
end
load_rows(places)
load_open(jobs)
for i, job in ipairs(jobs) do
    local row = row_at(job, slots[i], places[i])
    local is_owned = row and row.token == tokens[i]
    if is_owned then
        local is_held = row.state == 'claimed'
        if is_held then
            row.state = 'released'
            row.released_fence = row.fence
            row.lost = row.lost + (counted[i] and 1 or 0)
        end
        if is_held or not row.lease_ended then
            end_lease(row)
            put(row)
        end
        if row.state == 'released' then
            given_back[#given_back + 1] = row
        end
    end
    answers[i] = is_owned and '1' or '0'
end
save()
tell(sender, given_back)
return table.concat(answers)
