-- Keep how often held runs are tried again. A count that comes again or late changes nothing.

local jobs, slots, tokens, counts = unpack(asked)

local places, answers = {}, {}
for i, job in ipairs(jobs) do
    places[i] = place_of(job, slots[i])
end
load_rows(places)
for i, job in ipairs(jobs) do
    local row = row_at(job, slots[i], places[i])
    local is_held = row and row.token == tokens[i] and row.state == 'claimed' and is_alive(row)
    if is_held and row.retries < counts[i] then
        row.retries = counts[i]
        put_same(row)
    end
    answers[i] = is_held and '1' or '0'
end
save()
return table.concat(answers)
