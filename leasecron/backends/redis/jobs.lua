-- The jobs that were ever declared: schedule, when they were first and last seen, and the pause.

local found = call('HGETALL', JOBS)
local names, answers = {}, {}
for i = 1, #found, 2 do
    names[#names + 1] = found[i]
end
load_pauses(names)
for i, name in ipairs(names) do
    local first, last, schedule = unpacked(found[2 * i])
    local known = pauses[name]
    local since, ended, note = unpack(known[#known] or {})
    local is_paused_now = since and not ended
    answers[i] = string.format(
        '[%s,%s,%.0f,%.0f,%s,%s]', encode(name), encode(schedule), first, last,
        is_paused_now and digits(since) or 'null', is_paused_now and encode(note) or 'null'
    )
end
return '[' .. table.concat(answers, ',') .. ']'
