-- Go on with a backfill from one slot to another, or to its end where there is none. The run of the
-- slot is put in for anybody to begin: its attempts begin anew, and the fences of those before
-- stay, for their records.

local job, asked_at, cursor, slot = unpack(asked)

local backfill = backfill_of(job)
local come_to = cursor ~= cjson.null and cursor
local is_next = backfill and not backfill.ended_at and backfill.cursor == come_to
if not is_next or backfill.asked_at ~= asked_at then
    return 'stale'
end

-- A slot of the schedule that waits goes first, and one that is being run is waited for.
local has_to_wait = false
for each in pairs(open_of(job)) do
    local row = row_at(job, each, place_of(job, each))
    if row and row.origin == 'backfill' and (not ENDED[row.state] or is_alive(row)) then
        return 'stale' -- the run before has not ended, or a handler of it goes on
    elseif row and row.origin == 'scheduled' and row.attempt == 0 then
        has_to_wait = true
    elseif row and each == slot and is_alive(row) then
        has_to_wait = true
    end
end

if slot == cjson.null then
    count_run(backfill)
    backfill.ended_at = now
    put_backfill(backfill)
    return 'ended'
end
load_pauses({job})
local last_pause = pauses[job][#pauses[job]]
if last_pause and not last_pause[2] then
    return 'paused'
elseif has_to_wait then
    return 'busy'
end
count_run(backfill)
backfill.cursor = slot
put_backfill(backfill)

local place = place_of(job, slot)
local found = row_at(job, slot, place)
if found and found.state == 'success' then
    return 'skipped'
elseif found and found.state == 'claimed' then
    record_lost(found)
end
local row = add_run(job, slot, place, backfill.instance, 'backfill', 'released')
if found then
    row.fence, row.released_fence = found.fence, found.released_fence
    put_same(row)
    if listed_as(found) ~= listed_as(row) then
        gone_slots[#gone_slots + 1] = listed_as(found)
    end
end
save_records()
save()
return 'waiting'
