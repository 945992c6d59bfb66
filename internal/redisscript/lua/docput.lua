-- Keeps a document, or removes it and leaves a mark. KEYS: the documents, their revisions, their ends. ARGV: name, value, expiry
-- in µs or 0, how long a mark is kept or 0. It answers 1 if there was one before, and the revision.
local call = redis.call
local clock = call('TIME')
local now = clock[1] * 1000000 + clock[2]
local name, value, expires, mark = ARGV[1], ARGV[2], ARGV[3] + 0, ARGV[4] + 0

local function text(n) return string.format('%d', n) end

local ended = call('ZRANGEBYSCORE', KEYS[3], '-inf', text(now), 'LIMIT', 0, 100)
if #ended > 0 then
  call('HDEL', KEYS[1], unpack(ended))
  call('ZREM', KEYS[2], unpack(ended))
  call('ZREM', KEYS[3], unpack(ended))
end

-- What is kept is revision, expiry and value, with spaces between.
local existed = 0
local old = call('HGET', KEYS[1], name)
if old then
  local ends, rest = string.match(old, '^%d+ (%d+) (.*)$')
  if rest ~= '' and (ends == '0' or ends + 0 > now) then existed = 1 end
end
if mark > 0 then
  if existed == 0 then return {'0', '0'} end
  value, expires = '', now + mark
end

local top = call('ZREVRANGE', KEYS[2], 0, 0, 'WITHSCORES')
local revision = now
if top[2] and top[2] + 1 > now then revision = top[2] + 1 end
local score = '+inf'
if expires > 0 then score = text(expires) end
call('HSET', KEYS[1], name, text(revision) .. ' ' .. text(expires) .. ' ' .. value)
call('ZADD', KEYS[2], text(revision), name)
call('ZADD', KEYS[3], score, name)

-- The keys live as long as the last document.
local last = call('ZREVRANGE', KEYS[3], 0, 0, 'WITHSCORES')[2]
for i = 1, 3 do
  if last == 'inf' then
    call('PERSIST', KEYS[i])
  else
    call('PEXPIREAT', KEYS[i], text(math.ceil(last / 1000) + 1))
  end
end
return {text(existed), text(revision)}
