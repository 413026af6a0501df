-- What the scripts share that know of the history. Its records are text in JSON, by their fence. Of
-- each there are two entries in the order of the fences, one among those of its job and one among
-- those of all jobs.

local EVERY_JOB = '*:'
local new_records, new_fences = {}, {}

local function record(job, fence, text)
    local field = ordered(fence)
    if not new_records[field] then
        new_records[field] = {job, text}
        new_fences[#new_fences + 1] = field
    end
end

-- Record the latest attempt of a run as lost; without effect where its record is there already.
local function record_lost(row)
    local ended_at = math.max(row.claimed_at, math.min(row.lease_until, now))
    local text = string.format(
        '[%.0f,%.0f,%s,%.0f,%d,%s,%s,"lost",%.0f,null,%d]', ended_at, row.fence,
        encode(row.job), row.slot, row.attempt, encode(row.instance), encode(row.trigger),
        row.claimed_at, row.retries
    )
    record(row.job, row.fence, text)
    return text
end

local function save_records()
    local known = read(RECORDS, new_fences)
    local fields, entries = {}, {}
    for i, field in ipairs(new_fences) do
        if not known[i] then
            local job, text = unpack(new_records[field])
            fields[#fields + 1] = field
            fields[#fields + 1] = text
            for _, head in ipairs({head_of(job), EVERY_JOB}) do
                entries[#entries + 1] = 0
                entries[#entries + 1] = head .. field
            end
        end
    end
    write('HSET', RECORDS, fields)
    write('ZADD', HISTORY, entries)
end
