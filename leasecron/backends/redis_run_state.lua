-- How a run stands, with the record of the fence of its latest attempt; nothing where it is unknown.

local job, slot = unpack(asked)

local row = row_at(job, slot, place_of(job, slot))
if not row then
    return false
end
local state = row.state == 'claimed' and 'running' or row.state
if state == 'released' and row.attempt == 0 then
    state = 'waiting'
end
return string.format(
    '["%s",%d,%d,%s,%s]', state, row.attempt, row.retries, encode(row.instance),
    call('HGET', RECORDS, ordered(row.fence)) or 'null'
)
