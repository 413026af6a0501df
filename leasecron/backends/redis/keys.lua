-- Every script of a store begins with this: its keys, its clock, and how numbers are written.

local META, JOBS, RUNS, SLOTS, OPEN, PRUNED, RECORDS, HISTORY, PAUSES, ASKED, BACKFILLS =
    unpack(KEYS)
local call = redis.call

-- The server's clock, and nobody else's, in Unix milliseconds.
local function now_ms()
    local time = call('TIME')
    return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- By itself, Lua writes a large number with an exponent, and cjson leaves out its last digits.
local function digits(number)
    return string.format('%.0f', number)
end
