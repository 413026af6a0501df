-- How a run stands, with the record of the fence of its latest attempt, and what else is known of
-- that; nothing where the run is unknown.

local job, slot = unpack(asked)

local row = row_at(job, slot, place_of(job, slot))
if not row then
    return false
end
local state = row.state == 'claimed' and 'running' or row.state
if state == 'released' and row.attempt == 0 then
    state = 'waiting'
end
local result = call('HGET', RECORDS, ordered(row.fence))
return string.format(
    '["%s",%d,%d,%s,%s,%.0f,%s,%.0f,%s]', state, row.attempt, row.retries, encode(row.instance),
    result or 'null', row.fence, encode(row.trigger), row.claimed_at,
    ENDED[row.state] and digits(row.lease_until) or 'null'
)
