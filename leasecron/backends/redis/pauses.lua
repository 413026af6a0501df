-- The pauses of a job, oldest first.

local job = asked[1]

load_pauses({job})
local answers = {}
for i, each in ipairs(pauses[job]) do
    local since, ended, note = unpack(each)
    answers[i] = string.format(
        '[%.0f,%s,%s]', since, ended and digits(ended) or 'null', encode(note)
    )
end
return '[' .. table.concat(answers, ',') .. ']'
