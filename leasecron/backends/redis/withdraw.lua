-- Take back runs that were put in, unless they have been begun.

local jobs, slots = unpack(asked)

local places, answers = {}, {}
for i, job in ipairs(jobs) do
    places[i] = place_of(job, slots[i])
end
load_rows(places)
load_open(jobs)
for i, job in ipairs(jobs) do
    local row = row_at(job, slots[i], places[i])
    local is_waiting = row and row.attempt == 0 and row.origin ~= 'scheduled'
    if is_waiting then
        remove(row, listed_as(row))
    end
    answers[i] = is_waiting and '1' or '0'
end
save()
return table.concat(answers)
