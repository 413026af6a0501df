-- Make a store where there is none, and find out whether one may be used; its version is answered,
-- and whether it was made just now.

local kinds = {
    [META] = 'hash', [JOBS] = 'hash', [RUNS] = 'hash', [SLOTS] = 'zset',
    [OPEN] = 'hash', [PRUNED] = 'hash', [RECORDS] = 'hash', [HISTORY] = 'zset',
}
for key, kind in pairs(kinds) do
    local found = call('TYPE', key).ok
    if found ~= 'none' and found ~= kind then
        return redis.error_reply('FOREIGN ' .. key .. ' is a ' .. found .. ' and no ' .. kind)
    end
end

local version = call('HGET', META, 'version')
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
