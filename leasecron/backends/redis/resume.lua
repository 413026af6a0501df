-- End the pause of a job, if there is one; 1 where the job is known.

local job = asked[1]

load_pauses({job})
local last = pauses[job][#pauses[job]]
if last and not last[2] then
    last[2] = math.max(now, last[1])
    changed_pauses[job] = true
    save_pauses()
end
return call('HEXISTS', JOBS, job)
