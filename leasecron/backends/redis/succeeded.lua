-- The slots of a range that succeeded by their runs, of some that come first in it; and up to where
-- those reach.

local job, since, ends = unpack(asked)

local head = head_of(job)
local places = {}
for _, apart in ipairs({'', BACKFILLED, APART}) do
    local first, last = apart .. place_of(job, since), apart .. place_of(job, ends)
    local names = call('ZRANGEBYLEX', SLOTS, '[' .. first, '(' .. last, 'LIMIT', 0, MOST)
    for _, name in ipairs(names) do
        places[#places + 1] = string.sub(name, #apart + 1)
    end
    if #names == MOST then
        ends = string.sub(names[MOST], #apart + #head + 1) - 1e15 + 1
    end
end
load_rows(places)
local slots = {}
for _, place in ipairs(places) do
    if rows[place] and unpacked(rows[place]) == 'success' then
        slots[#slots + 1] = digits(string.sub(place, #head + 1) - 1e15)
    end
end
return string.format('[%.0f,[%s]]', ends, table.concat(slots, ','))
