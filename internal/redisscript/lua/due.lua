-- Which holds are due. KEYS: the sorted sets. ARGV: the time, or 0 for the server's; how many at most.
local now = ARGV[1]
if now == '0' then
  local clock = redis.call('TIME')
  now = string.format('%d', clock[1] * 1000000 + clock[2])
end
local out, left = {}, ARGV[2] + 0
for i = 1, #KEYS do
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', KEYS[i], '-inf', now, 'LIMIT', 0, left)) do
    out[#out + 1], left = id, left - 1
  end
  if left < 1 then break end
end
return out
