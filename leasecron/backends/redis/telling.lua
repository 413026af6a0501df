-- Tell whoever listens of runs that can be taken over now, and who tells it. Whoever may not do
-- that has its call done all the same.
local function tell(sender, runs)
    for _, row in ipairs(runs) do
        redis.pcall('PUBLISH', META, sender .. ' ' .. digits(row.slot) .. ' ' .. row.job)
    end
end
