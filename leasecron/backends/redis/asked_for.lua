-- The runs that were put in and have not ended, of all jobs.

local found = call('HGETALL', ASKED)
local places, answers = {}, {}
for i = 1, #found, 2 do
    places[#places + 1] = found[i]
end
load_rows(places)
for i, place in ipairs(places) do
    local job = found[2 * i]
    local slot = string.sub(place, #head_of(job) + 1) - 1e15
    local row = row_at(job, slot, place)
    if row then
        answers[#answers + 1] = string.format(
            '[%s,%.0f,%d,%s,"%s"]', encode(job), slot, row.attempt,
            is_alive(row) and 'true' or 'false', row.origin
        )
    end
end
return '[' .. table.concat(answers, ',') .. ']'
