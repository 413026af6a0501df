-- Record ends; the lease may be over, as long as nobody took the run. Repeated, it says the same.

local jobs, slots, tokens, statuses, keeps, notes = unpack(asked)
local ENDS = {success = 'success', failed = 'failed', lost = 'failed', interrupted = 'replaced'}

local places, answers = {}, {}
for i, job in ipairs(jobs) do
    places[i] = place_of(job, slots[i])
end
load_rows(places)
load_open(jobs)
for i, job in ipairs(jobs) do
    local row = row_at(job, slots[i], places[i])
    local is_owned = row and row.token == tokens[i]
    if is_owned then
        if not ENDED[row.state] then
            row.state = ENDS[statuses[i]]
            if row.state == 'failed' and notes[i] ~= cjson.null then
                load_pauses({job})
                pause(job, notes[i])
            end
        end
        if not (keeps[i] or row.lease_ended) then
            end_lease(row)
        end
        put(row)
    end
    answers[i] = is_owned and '1' or '0'
end
save()
save_pauses()
return table.concat(answers)
