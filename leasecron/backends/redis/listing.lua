-- Return the name by which a run is listed.
local function listed_as(row)
    if row.origin == 'backfill' then
        return BACKFILLED .. row.place
    end
    return (row.attempt > 0 and row.origin == 'scheduled' and '' or APART) .. row.place
end
