-- One charge, or one question if no key of spaces is sent, by the server's clock, without a function: Redis makes a script's
-- functions anew at each call, and they would cost more than the decision. KEYS: the state, the spaces of its tag. ARGV: the
-- limit, the cost, how many times if not once, or h for a hit.
local fmod, fmt, match, find, tonumber = math.fmod, string.format, string.match, string.find, tonumber
local MAX, CENTURY = 9007199254740991, 3155760000000000
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local row, cost, times, n = redis.pcall('GET', KEYS[1]), ARGV[2] + 0, tonumber(ARGV[3] or 1), nil
local size, gain, unitText, tick = match(ARGV[1], '^b([^,]+),([^,]+),([^,]+),([^,]+)$')
size, gain, tick = size + 0, gain + 0, tick + 0
local unit = unitText + 0
local fine, level, unit0, stamp, since, expires = true, 0, 0, 0, 0, 0
local fresh = not row
if type(row) == 'table' then
  fine = false
elseif row then
  --@parse
end
if not fine then return clock[1] .. ' ' .. clock[2] .. '\n7' end
local before = expires
local cap, lv, base, open = size * unit, nil, nil, nil
--@bucket_open
local room, price = lv, cost * unit
--@fits
if KEYS[2] and n > 0 and cost > 0 then
  local to, top = lv - price * n, lv
  --@bucket_set
  row = fmt('p%d,%s,%d,%d,%d', level, unitText, stamp, stamp - since, expires - stamp)
  --@one_write
end
return clock[1] .. ' ' .. clock[2] .. '\n0 ' .. fmt('%d', n) .. (n == times and ',1,' or ',0,') .. (row or '')
