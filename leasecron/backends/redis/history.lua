-- Records, newest first: at most so many of those before a fence, of one job or of all.

local of_job, before, most = unpack(asked)

local head = #of_job > 0 and head_of(of_job[1]) or EVERY_JOB
local places = call(
    'ZREVRANGEBYLEX', HISTORY, '(' .. head .. ordered(before), '[' .. head, 'LIMIT', 0, most
)
local fields, answers = {}, {}
for i, place in ipairs(places) do
    fields[i] = string.sub(place, #head + 1)
end
for _, text in ipairs(read(RECORDS, fields)) do
    answers[#answers + 1] = text or nil
end
return '[' .. table.concat(answers, ',') .. ']'
