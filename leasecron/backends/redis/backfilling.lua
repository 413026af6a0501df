-- What the scripts share that know of backfills: of each job the newest, packed, by what the names
-- of its entries begin with; and by a name that none of those has, the jobs whose backfills go on.

local GOING_ON = '*'

-- Return a backfill from its values; of those that are not there, false stands for the instant.
local function backfill_from(values)
    local row = {}
    row.job, row.since, row.ends, row.total, row.instance, row.asked_at, row.cursor,
        row.succeeded, row.failed, row.ended_at = unpack(values)
    return row
end

local function backfill_of(job)
    local packed = call('HGET', BACKFILLS, head_of(job))
    return packed and backfill_from({job, unpacked(packed)})
end

local function jobs_going_on()
    local packed = call('HGET', BACKFILLS, GOING_ON)
    return packed and unpacked(packed) or {}
end

local function put_backfill(row)
    call('HSET', BACKFILLS, head_of(row.job), pack(
        row.since, row.ends, row.total, row.instance, row.asked_at, row.cursor, row.succeeded,
        row.failed, row.ended_at
    ))
    local others = {}
    for _, job in ipairs(jobs_going_on()) do
        if job ~= row.job then
            others[#others + 1] = job
        end
    end
    if not row.ended_at then
        others[#others + 1] = row.job
    end
    if #others > 0 then
        call('HSET', BACKFILLS, GOING_ON, pack(others))
    else
        call('HDEL', BACKFILLS, GOING_ON)
    end
end

local function backfill_text(row)
    return string.format(
        '[%s,%.0f,%.0f,%.0f,%s,%.0f,%s,%.0f,%.0f,%s]', encode(row.job), row.since, row.ends,
        row.total, encode(row.instance), row.asked_at, row.cursor and digits(row.cursor) or 'null',
        row.succeeded, row.failed, row.ended_at and digits(row.ended_at) or 'null'
    )
end
