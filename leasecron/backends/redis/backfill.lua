-- The newest backfill of a job; nothing where there was none.

local row = backfill_of(asked[1])
return row and backfill_text(row)
