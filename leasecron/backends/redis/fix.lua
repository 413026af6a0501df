-- The instants of jobs that run once, each of which is the one that was given first.

local jobs, instants = unpack(asked)

local known = read(JOBS, jobs)
local fixed, changes, answers = {}, {}, {}
for i, job in ipairs(jobs) do
    if not fixed[job] then
        local first, last, schedule, once_at = now, now, '', nil
        if known[i] then
            first, last, schedule, once_at = unpacked(known[i])
        end
        fixed[job] = once_at or instants[i]
        if not once_at then
            changes[#changes + 1] = job
            changes[#changes + 1] = pack(first, last, schedule, fixed[job])
        end
    end
    answers[i] = digits(fixed[job])
end
write('HSET', JOBS, changes)
return '[' .. table.concat(answers, ',') .. ']'
