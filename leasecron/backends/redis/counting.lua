-- Count how the run ended that a backfill has come to, if that has ended.
local function count_run(backfill)
    local slot = backfill.cursor
    local row = slot and row_at(backfill.job, slot, place_of(backfill.job, slot))
    if row and row.state == 'success' then -- by the backfill or, meanwhile, by itself
        backfill.succeeded = backfill.succeeded + 1
    elseif row and row.origin == 'backfill' and ENDED[row.state] then
        backfill.failed = backfill.failed + 1
    end
end
