-- The runs of these jobs that have not ended, each job by its number in the call.

local jobs = asked[1]

load_open(jobs)
local answers = {}
for i, job in ipairs(jobs) do
    for slot in pairs(open_of(job)) do
        local row = row_at(job, slot, place_of(job, slot))
        if row and not ENDED[row.state] then
            answers[#answers + 1] = string.format(
                '[%d,%.0f,%d,%s,"%s"]', i - 1, slot, row.attempt,
                is_alive(row) and 'true' or 'false', row.origin
            )
        end
    end
end
return '[' .. table.concat(answers, ',') .. ']'
