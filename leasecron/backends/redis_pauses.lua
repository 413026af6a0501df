-- The pauses of a job, oldest first.

local answers = {}
for i, each in ipairs(pauses_of(asked[1])) do
    local since, ended, note = unpack(each)
    answers[i] = string.format(
        '[%.0f,%s,%s]', since, ended and digits(ended) or 'null', encode(note)
    )
end
return '[' .. table.concat(answers, ',') .. ']'
