-- Note that jobs exist; when each was first seen is the answer.

local jobs, schedules = unpack(asked)

local known = read(JOBS, jobs)
local first_seen, changes, answers = {}, {}, {}
for i, job in ipairs(jobs) do
    first_seen[job] = first_seen[job] or (known[i] and unpacked(known[i])) or now
    changes[#changes + 1] = job
    changes[#changes + 1] = pack(first_seen[job], now, schedules[i])
    answers[i] = digits(first_seen[job])
end
write('HSET', JOBS, changes)
return '[' .. table.concat(answers, ',') .. ']'
