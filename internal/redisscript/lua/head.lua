-- The arithmetic of package arith, restated. Every number is an integer within 2^53 - 1, so doubles are exact. Division is by
-- fmod, which is exact too, or by %, which is so for what is not below zero, and costs less. Numbers become text by %d, which
-- takes them as 64 bits: tostring would round them to 14 digits, and %.0f takes three times as long.
local fmod, fmt, match, find, sub, concat = math.fmod, string.format, string.match, string.find, string.sub, table.concat
local call, pcall, tonumber = redis.call, redis.pcall, tonumber
local MAX, CENTURY = 9007199254740991, 3155760000000000

-- Redis 7 lets TIME move while a script runs, so it is asked once.
local clock = call('TIME')
local server = clock[1] * 1000000 + clock[2]

-- rows are the texts under KEYS as this call sees them, '' if there is none and false if it is not ours. Nothing is
-- written before all is decided: an error in a script does not take back what was written.
local rows, expiry, order, mark = {}, {}, {}, {}

-- What a script leaves out stays nil. KEYS[heads] is the last that is no state; those that name spaces are among the first.
local heads, hold, due, openBucket, setBucket, openCount, setCount
local openWindow, countWindow, chargeWindow, answerWindow, spread, encodeUses, openSlots, countSlots, answerSlots

local function cdiv(a, b)
  local r = fmod(a, b)
  local q = (a - r) / b
  if r > 0 then return q + 1 end
  return q
end

local function fdiv(a, b)
  local r = fmod(a, b)
  local q = (a - r) / b
  if r < 0 then return q - 1 end
  return q
end

local function load(k)
  local s = rows[k]
  if s == nil then
    s = pcall('GET', KEYS[k])
    if not s then
      s = ''
    elseif type(s) == 'table' then
      s = false
    end
    rows[k] = s
  end
  return s
end

-- limits are tables by their text, as a batch has few of them.
local limits = {}
local function limit(s)
  local l = limits[s]
  if l then return l end
  local kind, a, b, c, d, e = match(s, '^(%a)(%d+),(%-?%d+),?(%-?%d*),?(%-?%d*),?(%-?%d*)')
  l = {kind = kind, size = a + 0}
  if kind == 'b' then
    l.gain, l.unit, l.tick = b + 0, c + 0, d + 0
    l.cap = l.size * l.unit
  elseif kind == 'm' then
    l.b0, l.b1, l.b2, l.b3 = b + 0, c + 0, d + 0, e + 0
  else
    l.span = b + 0
  end
  limits[s] = l
  return l
end

-- parse sets the state of v from its row, and answers false if that is not ours. The uses of a window stay text as long as
-- they can.
local function parse(v, s)
  if s == '' then return true end
  if not s then return false end
  local form = sub(s, 1, 1)
  if form == 's' then return openSlots and openSlots(v, s) end
  if form ~= 'p' then return openWindow and openWindow(v, s) end
  local row, fine, level, unit0, stamp, since, expires, unit, unitText = s, nil, nil, nil, nil, nil, nil, 0, '0'
  --@parse
  v.level, v.unit, v.stamp, v.since, v.expires = level, unit0, stamp, since, expires
  return fine
end

local function encode(v)
  if v.text then return v.text end
  if v.expires == 0 then return '' end
  if v.n > 0 then return encodeUses(v) end
  return fmt('p%d,%d,%d,%d,%d', v.level, v.unit, v.stamp, v.stamp - v.since, v.expires - v.stamp)
end

-- view is the state under KEYS[k] as a limit sees it; nil if what is there is not ours. bounded says that a budget's bounds
-- hold now.
local function view(k, l, now)
  local v = {k = k, l = l, wall = now, now = now, bounded = true, level = 0, unit = 0, stamp = 0, since = 0, expires = 0, n = 0, used = 0, dirty = false}
  if not parse(v, load(k)) then return nil end
  v.old = v.expires
  local kind = l.kind
  if kind == 'b' then
    openBucket(v)
  elseif kind == 'c' then
    v.fin = now + l.span
    openCount(v)
  elseif kind == 'm' then
    v.fin = l.b3
    if now < l.b2 then v.fin = l.b2 end
    if now < l.b1 then v.fin = l.b1 end
    openCount(v)
    v.bounded = l.b0 <= now and now < l.b3
  elseif v.expires > now then
    if kind == 'w' then
      if v.n > 0 and v.last > now then v.now = v.last end
      countWindow(v)
    elseif v.n > 0 then
      countSlots(v)
    end
  end
  return v
end

