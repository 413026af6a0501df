-- Count how the run ended that a backfill has come to, if that has ended.
local function count_run(backfill)
    local slot = backfill.cursor
    local row = slot and row_at(backfill.job, slot, place_of(backfill.job, slot))
    if row and row.origin == 'backfill' and ENDED[row.state] then
        local how = row.state == 'success' and 'succeeded' or 'failed'
        backfill[how] = backfill[how] + 1
    end
end
