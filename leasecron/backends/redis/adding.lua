-- Put in a run that nobody has begun. No token is like its own, nor like that of one that was
-- closed in its holder's place.
local function add_run(job, slot, place, instance, trigger, state)
    local is_of_schedule = trigger ~= 'manual' and trigger ~= 'backfill'
    local row = {
        job = job, slot = slot, place = place, state = state, token = false, attempt = 0, lost = 0,
        fence = 0, instance = instance, trigger = trigger, claimed_at = now, lease_until = now,
        lease_ended = true, retries = 0, origin = is_of_schedule and 'scheduled' or trigger,
    }
    new_slots[#new_slots + 1] = 0
    new_slots[#new_slots + 1] = listed_as(row)
    put(row)
    return row
end
