-- Begin a backfill unless one of the job goes on, and tell whoever listens of it by its start; the
-- answer is the one that goes on then, and whether it was begun just now.

local job, since, ends, total, instance, sender = unpack(asked)

local row = backfill_of(job)
if row and not row.ended_at then
    return {0, backfill_text(row)}
end
local asked_at = row and math.max(now, row.asked_at + 1) or now
row = backfill_from({job, since, ends, total, instance, asked_at, false, 0, 0, false})
put_backfill(row)
tell(sender, {{job = job, slot = since}})
return {1, backfill_text(row)}
