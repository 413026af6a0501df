-- End the pause of a job, if there is one; 1 where the job is known.

local job = asked[1]

load_pauses({job})
for _, pause in ipairs(pauses[job]) do
    if not pause[2] or pause[2] > now then -- by a clock that was ahead
        pause[2] = math.max(now, pause[1])
        changed_pauses[job] = true
    end
end
if changed_pauses[job] then
    save_pauses()
end
return call('HEXISTS', JOBS, job)
