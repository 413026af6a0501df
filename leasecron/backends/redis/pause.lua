-- Let no claim of a job win from now on, if the job is known.

local job, note = unpack(asked)

if call('HEXISTS', JOBS, job) == 0 then
    return 0
end
load_pauses({job})
pause(job, note)
save_pauses()
return 1
