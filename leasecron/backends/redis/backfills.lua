-- The backfills that go on.

local answers = {}
for i, job in ipairs(jobs_going_on()) do
    answers[i] = backfill_text(backfill_of(job))
end
return '[' .. table.concat(answers, ',') .. ']'
