-- End the pause of a job, if there is one; 1 where the job is known.

local job = asked[1]

resume(job)
save_pauses()
return call('HEXISTS', JOBS, job)
