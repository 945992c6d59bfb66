-- The documents after a revision, in its order. KEYS: the documents, their revisions. ARGV: the revision, how many. It answers
-- the clock, the greatest revision, and name and content of each.
local call, match = redis.call, string.match
local clock = call('TIME')
local now = clock[1] * 1000000 + clock[2]
local top = call('ZREVRANGE', KEYS[2], 0, 0, 'WITHSCORES')
local out = {string.format('%d', now), '0'}
if not top[2] then return out end
out[2] = string.format('%d', top[2])
if top[2] + 0 <= ARGV[1] + 0 then return out end
local from, most = 0, ARGV[2] + 0
while #out < 2 + 2 * most do
  local names = call('ZRANGEBYSCORE', KEYS[2], '(' .. ARGV[1], '+inf', 'LIMIT', from, most)
  if #names == 0 then break end
  from = from + #names
  local all = call('HMGET', KEYS[1], unpack(names))
  for i = 1, #names do
    local ends = all[i] and match(all[i], '^%d+ (%d+) ')
    if ends and (ends == '0' or ends + 0 > now) and #out < 2 + 2 * most then
      out[#out + 1] = names[i]
      out[#out + 1] = all[i]
    end
  end
end
return out
