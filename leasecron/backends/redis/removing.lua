-- Remove a run and all that is said of it, by the name by which it is listed.
local function remove(row, name)
    rows[row.place] = false
    gone_rows[#gone_rows + 1] = row.place
    gone_slots[#gone_slots + 1] = name
    set_open(row.job, row.slot, nil)
    if row.origin ~= 'scheduled' then
        no_more_asked_for[#no_more_asked_for + 1] = row.place
    end
end
