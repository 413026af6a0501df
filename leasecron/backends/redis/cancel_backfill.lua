-- End the backfill that was asked for then, before its time: what was not begun is not, and a live
-- run goes on. 1 where it was there to be ended.

local job, asked_at = asked[1], asked[2]

local backfill = backfill_of(job)
if not backfill or backfill.ended_at or backfill.asked_at ~= asked_at then
    return 0
end
local slot = backfill.cursor
local row = slot and row_at(job, slot, place_of(job, slot))
if row and row.origin == 'backfill' and row.attempt == 0 and not ENDED[row.state] then
    row.state = 'replaced'
    end_lease(row)
    put(row)
    save()
else
    count_run(backfill)
end
backfill.ended_at = now
put_backfill(backfill)
return 1
