-- Renew leases that are alive and have the token, whatever the state of their runs. The answers are
-- 0 for one that is lost, and for the others 1, or 2 where the run has to make way for a newer one.

local jobs, slots, tokens, leases = unpack(asked)

local places, answers = {}, {}
for i, job in ipairs(jobs) do
    places[i] = place_of(job, slots[i])
end
load_rows(places)
for i, job in ipairs(jobs) do
    local row = row_at(job, slots[i], places[i])
    local renewed = row and row.token == tokens[i] and is_alive(row)
    if renewed then
        row.lease_until = now + leases[i]
        put_same(row)
    end
    answers[i] = renewed and (row.cancelled and '2' or '1') or '0'
end
save()
return table.concat(answers)
