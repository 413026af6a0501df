-- Note that jobs exist; when each was first seen is the answer.

local jobs, schedules = unpack(asked)

local known = read(JOBS, jobs)
local first_seen, changes, answers = {}, {}, {}
for i, job in ipairs(jobs) do
    local first, _last, _schedule, once_at = now, nil, nil, nil
    if known[i] then
        first, _last, _schedule, once_at = unpacked(known[i])
    end
    first_seen[job] = first
    changes[#changes + 1] = job
    changes[#changes + 1] = pack(first, now, schedules[i], once_at)
    answers[i] = digits(first_seen[job])
end
write('HSET', JOBS, changes)
return '[' .. table.concat(answers, ',') .. ']'
