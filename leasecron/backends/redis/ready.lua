-- Make a store where there is none, bring one of an older version up to date, and find out whether
-- one may be used; its version is answered, and whether it was made just now.

local kinds = {
    [META] = 'hash', [JOBS] = 'hash', [RUNS] = 'hash', [SLOTS] = 'zset',
    [OPEN] = 'hash', [PRUNED] = 'hash', [RECORDS] = 'hash', [HISTORY] = 'zset',
    [PAUSES] = 'hash', [ASKED] = 'hash', [BACKFILLS] = 'hash',
}

for key, kind in pairs(kinds) do
    local found = call('TYPE', key).ok
    if found ~= 'none' and found ~= kind then
        return redis.error_reply('FOREIGN ' .. key .. ' is a ' .. found .. ' and no ' .. kind)
    end
end

local version = call('HGET', META, 'version')
-- What an older version did not know of is not there, and reads as what it has always been: a run
-- of the schedule that was not tried again, and a job that is not paused.
for i = 2, #ARGV do
    if version == ARGV[i] then
        call('HSET', META, 'version', ARGV[1])
        version = ARGV[1]
    end
end
if version and version ~= ARGV[1] then
    return {version, 0}
end
if not version then
    if call('EXISTS', META) == 1 then
        return redis.error_reply('FOREIGN ' .. META .. ' has no version')
    end
    -- Fences begin at the time of creation so that they rise across stores as well.
    call('HSET', META, 'version', ARGV[1], 'fence', digits(now_ms() - 1))
end

-- Whoever may not write, or may not use a command, is told so here and not in the middle of a call.
call('HSET', META, 'probe', '1')
call('HDEL', META, 'probe')
call('ZADD', HISTORY, 0, 'probe')
call('ZREM', HISTORY, 'probe')
return {ARGV[1], version and 0 or 1}
