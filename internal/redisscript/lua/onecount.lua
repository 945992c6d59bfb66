-- One charge, or one question if no key of spaces is sent, by the server's clock, without a function: Redis makes a script's
-- functions anew at each call, and they would cost more than the decision. KEYS: the state, the spaces of its tag. ARGV: the
-- limit, the cost, how many times if not once, or h for a hit.
local fmt, match, find, tonumber = string.format, string.match, string.find, tonumber
local MAX, CENTURY = 9007199254740991, 3155760000000000
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local row, cost, times, n = redis.pcall('GET', KEYS[1]), ARGV[2] + 0, tonumber(ARGV[3] or 1), nil
local unit, unitText = 0, '0'
local fine, level, unit0, stamp, since, expires = true, 0, 0, 0, 0, 0
local fresh = not row
if type(row) == 'table' then
  fine = false
elseif row then
  --@parse
end
if not fine then return clock[1] .. ' ' .. clock[2] .. '\n7' end
local before = expires
local size, fin, b1, b2, b3 = match(ARGV[1], '^%a([^,]+),([^,]+),?([^,]*),?([^,]*),?([^,]*)$')
size = size + 0
if b1 == '' then
  fin = now + fin
elseif fin + 0 > now or now >= b3 + 0 then
  return clock[1] .. ' ' .. clock[2] .. '\n1'
elseif now < b1 + 0 then
  fin = b1 + 0
elseif now < b2 + 0 then
  fin = b2 + 0
else
  fin = b3 + 0
end
local used, open, to
--@count_open
if times then
  local room, price = size - used, cost
  --@fits
  if KEYS[2] and n > 0 and cost > 0 then to = used + cost * n end
else
  times, n, to = 0, 0, used + cost
  if to > MAX or to < -MAX then return clock[1] .. ' ' .. clock[2] .. '\n2' end
  if cost == 0 then to = nil end
end
if to then
  --@count_set
  row = fmt('p%d,0,%d,%d,%d', level, stamp, stamp - since, expires - stamp)
  --@one_write
end
return clock[1] .. ' ' .. clock[2] .. '\n0 ' .. fmt('%d', n) .. (n == times and ',1,' or ',0,') .. (row or '')
