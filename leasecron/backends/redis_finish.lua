-- Record ends; the lease may be over, as long as nobody took the run. Repeated, it says the same.

local jobs, slots, tokens, statuses, keeps = unpack(asked)

local places, answers = {}, {}
for i, job in ipairs(jobs) do
    places[i] = place_of(job, slots[i])
end
load_rows(places)
load_open(jobs)
for i, job in ipairs(jobs) do
    local row = row_at(job, slots[i], places[i])
    local is_owned = row and row.token == tokens[i]
    if is_owned then
        if not ENDED[row.state] then
            row.state = statuses[i] == 'success' and 'success' or 'failed'
        end
        if not (keeps[i] or row.lease_ended) then
            end_lease(row)
        end
        put(row)
    end
    answers[i] = is_owned and '1' or '0'
end
save()
return table.concat(answers)
