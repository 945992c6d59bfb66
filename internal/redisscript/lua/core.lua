-- The arithmetic of package arith, restated. Every number is an integer within 2^53 - 1, so doubles are exact; division is
-- by fmod, which is exact too, and numbers become text by %.0f: tostring would round them to 14 digits.
local fmod, fmt, match, find, concat = math.fmod, string.format, string.match, string.find, table.concat
local call, pcall = redis.call, redis.pcall
local MAX, CENTURY = 9007199254740991, 3155760000000000
local MAXTICK, MAXUSES, JOINPARTS = 1000000, 256, 128

-- Redis 7 lets TIME move while a script runs, so it is asked once.
local clock = call('TIME')
local server = clock[1] * 1000000 + clock[2]

-- rows are the texts under KEYS as this call sees them, '' if there is none and false if it is not ours. Nothing is
-- written before all is decided: an error in a script does not take back what was written.
local rows, expiry, order, mark = {}, {}, {}, {}
local hold, due -- of the script with holds

local function cdiv(a, b)
  local r = fmod(a, b)
  local q = (a - r) / b
  if r > 0 then q = q + 1 end
  return q
end

local function fdiv(a, b)
  local r = fmod(a, b)
  local q = (a - r) / b
  if r < 0 then q = q - 1 end
  return q
end

local function load(k)
  local s = rows[k]
  if s == nil then
    s = pcall('GET', KEYS[k])
    if s == false then
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

-- uses reads those of a window or of slots into A (at), C (cost), W (window, or holder).
local function uses(v, s)
  local si, ex, n, at = match(s, '^u(%d+),(%d+),(%d+)()')
  if not si then return false end
  v.since, v.expires, n = si + 0, ex + 0, n + 0
  local A, C, W, last = {}, {}, {}, 0
  for i = 1, n do
    local d, c, w, e = match(s, '^|(%d+):(%d+):(%d+)()', at)
    if not d then return false end
    last = last + d
    A[i], C[i], W[i], at = last, c + 0, w + 0, e
    if C[i] > MAX or W[i] > MAX or W[i] < 1 then return false end
  end
  if at ~= #s + 1 or n < 1 or last > MAX or v.since > MAX or v.expires > MAX then return false end
  v.A, v.C, v.W, v.n = A, C, W, n
  return true
end

-- parse sets the state of v from its row, and answers false if that is not ours.
local function parse(v, s)
  v.level, v.unit, v.stamp, v.since, v.expires, v.n = 0, 0, 0, 0, 0, 0
  if s == '' then return true end
  if not s then return false end
  local lv, un, st, si, ex = match(s, '^p(%-?%d+),(%d+),(%d+),(%-?%d+),(%-?%d+)$')
  if not lv then return uses(v, s) end
  lv, un, st = lv + 0, un + 0, st + 0
  si, ex = st - si, st + ex
  if lv > MAX or lv < -MAX or un > MAX or st > MAX or si > MAX or si < -MAX or ex > MAX or ex < -MAX then return false end
  v.level, v.unit, v.stamp, v.since, v.expires = lv, un, st, si, ex
  return true
end

local function encode(v)
  if v.expires == 0 then return '' end
  if v.n == 0 then
    return fmt('p%.0f,%.0f,%.0f,%.0f,%.0f', v.level, v.unit, v.stamp, v.stamp - v.since, v.expires - v.stamp)
  end
  local out, last = {fmt('u%.0f,%.0f,%.0f', v.since, v.expires, v.n)}, 0
  local A, C, W = v.A, v.C, v.W
  for i = 1, v.n do
    out[i + 1] = fmt('|%.0f:%.0f:%.0f', A[i] - last, C[i], W[i])
    last = A[i]
  end
  return concat(out)
end

local function count(v)
  local used, now, span, A, C, W = 0, v.now, v.l.span, v.A, v.C, v.W
  for i = 1, v.n do
    local w = W[i]
    if w > span then w = span end
    if A[i] + w > now then
      used = used + C[i]
      if used > MAX then used = MAX end
    end
  end
  v.used = used
end

local function openBucket(v)
  local l, now = v.l, v.now
  local full, tick, T = l.cap, now, l.tick
  if T > 1 then tick = fdiv(now, T) end
  v.lv, v.base, v.open = full, tick, false
  if v.expires <= now or v.unit == 0 then return end
  local level, low = v.level, full - MAX
  if v.unit ~= l.unit then
    local tokens = fdiv(level, v.unit)
    if tokens >= l.size then
      level = full
    elseif tokens <= fdiv(low, l.unit) then
      level = low
    else
      level = tokens * l.unit
    end
  end
  if level < low then level = low elseif level > full then level = full end
  local stamp = v.stamp
  if T > 1 then stamp = cdiv(stamp, T) end
  local passed = tick - stamp
  if passed > 0 then
    if passed >= cdiv(full - level, l.gain) then level = full else level = level + passed * l.gain end
  else
    v.base = stamp
  end
  v.lv, v.open = level, level < full
end

local function openCount(v)
  v.used, v.open = 0, false
  if v.expires > v.now and v.stamp ~= 0 then
    v.used, v.fin, v.open = v.level, v.stamp, true
  end
end

-- view is the state under KEYS[k] as a limit sees it; nil if what is there is not ours. bounded says that a budget's bounds
-- hold now.
local function view(k, l, now)
  local v = {k = k, l = l, wall = now, now = now, bounded = true}
  if not parse(v, load(k)) then return nil end
  v.old = v.expires
  local kind = l.kind
  if kind == 'b' then
    openBucket(v)
  elseif kind == 'w' then
    v.used = 0
    if v.expires > now then
      if v.n > 0 and v.A[v.n] > now then v.now = v.A[v.n] end
      count(v)
    end
  elseif kind == 'c' then
    v.fin = now + l.span
    openCount(v)
  elseif kind == 'm' then
    v.fin = l.b3
    if now < l.b2 then v.fin = l.b2 end
    if now < l.b1 then v.fin = l.b1 end
    openCount(v)
    v.bounded = l.b0 <= now and now < l.b3
  else
    v.used = 0
    if v.expires > now then
      for i = 1, v.n do
        if v.A[i] > now then v.used = v.used + v.C[i] end
      end
    end
  end
  return v
end

-- fits answers how many of so many charges of cost there is room for.
local function fits(v, cost, times)
  local l = v.l
  if cost == 0 then
    if l.kind == 'b' then
      if v.lv >= 0 then return times end
    elseif v.used <= l.size then
      return times
    end
    return 0
  end
  if cost > l.size then return 0 end
  local room = l.size - (v.used or 0)
  if l.kind == 'b' then room, cost = v.lv, cost * l.unit end
  if room < cost then return 0 end
  if times == 1 then return 1 end
  room = fdiv(room, cost)
  if room < times then return room end
  return times
end

-- setBucket sets the level; top is the higher one of before and after.
local function setBucket(v, level, top)
  local l, now = v.l, v.now
  local full, T = l.cap, l.tick
  v.dirty = true
  if v.expires <= now then
    v.since, v.stamp = now, 0
  elseif not v.open and now > v.since then
    v.since = now
  end
  local stamp, tick = now, now
  if T > 1 then
    tick = fdiv(now, T)
    stamp = tick * T
    if stamp < now and top >= full - l.gain then stamp = stamp + T end
  end
  if stamp > v.stamp then v.stamp = stamp end
  v.level, v.unit = level, l.unit
  v.lv, v.open = level, level < full
  local base = v.stamp
  if T > 1 then base = cdiv(base, T) end
  if tick > base then base = tick end
  v.base = base
  local ticks, most = cdiv(full - level, l.gain), fdiv(CENTURY, T)
  if ticks > most then ticks = most end
  local ends = (base + ticks) * T
  if ends > now + CENTURY then ends = now + CENTURY end
  v.expires = ends
end

local function setCount(v, n)
  if not v.open then
    local since = v.now
    if v.expires > v.now and v.since > since then since = v.since end
    v.unit, v.stamp, v.since, v.expires, v.open = 0, v.fin, since, v.fin, true
  end
  v.level, v.used, v.dirty = n, n, true
end

local function windowExpiry(v)
  if v.n == 0 then
    v.level, v.unit, v.stamp, v.since, v.expires = 0, 0, 0, 0, 0
  end
  for i = 1, v.n do
    local e = v.A[i] + v.W[i]
    if e > MAX then e = MAX end
    if i == 1 or e > v.expires then v.expires = e end
  end
end

local function remove(v, i)
  table.remove(v.A, i)
  table.remove(v.C, i)
  table.remove(v.W, i)
  v.n = v.n - 1
end

-- join makes one of all uses of one window that lie in one part of it.
local function join(v)
  local A, C, W, P, n = {}, {}, {}, {}, 0
  for i = 1, v.n do
    local at, cost, w = v.A[i], v.C[i], v.W[i]
    local part = cdiv(w, JOINPARTS)
    local p = fdiv(at, part)
    for j = n, 1, -1 do
      if fdiv(A[j], part) ~= p then break end
      if W[j] == w then
        cost = cost + C[j]
        if cost > MAX then cost = MAX end
        table.remove(A, j)
        table.remove(C, j)
        table.remove(W, j)
        n = n - 1
        break
      end
    end
    n = n + 1
    A[n], C[n], W[n] = at, cost, w
  end
  v.A, v.C, v.W, v.n = A, C, W, n
end

local function chargeWindow(v, cost)
  local now, w = v.now, v.l.span
  if v.expires <= now then
    v.level, v.unit, v.stamp, v.since, v.expires, v.n = 0, 0, 0, now, 0, 0
  elseif v.n == 0 then
    if now > v.since then v.since = now end
  end
  local A, C, W, n = {}, {}, {}, 0
  for i = 1, v.n do
    if v.A[i] + v.W[i] > now then
      n = n + 1
      A[n], C[n], W[n] = v.A[i], v.C[i], v.W[i]
    end
  end
  local i = n
  while i > 0 and A[i] == now and W[i] ~= w do i = i - 1 end
  if i > 0 and A[i] == now then
    C[i] = C[i] + cost
    if C[i] > MAX then C[i] = MAX end
  else
    n = n + 1
    A[n], C[n], W[n] = now, cost, w
  end
  v.A, v.C, v.W, v.n, v.dirty = A, C, W, n, true
  v.level, v.unit, v.stamp = 0, 0, 0
  if n > MAXUSES then join(v) end
  if v.n > MAXUSES then
    for j = 1, v.n do
      if v.W[j] > w then w = v.W[j] end
    end
    for j = 1, v.n do v.W[j] = w end
    join(v)
  end
  count(v)
  windowExpiry(v)
end

-- charge adds cost, which fits.
local function charge(v, cost)
  if cost == 0 then return end
  local l = v.l
  if l.kind == 'b' then
    local level, low = v.lv - cost * l.unit, l.cap - MAX
    if level < low then level = low end
    setBucket(v, level, v.lv)
  elseif l.kind == 'w' then
    chargeWindow(v, cost)
  else
    setCount(v, v.used + cost)
  end
end

-- refund gives back n of what was charged at the given time, and answers how much went back.
local function refund(v, n, at)
  if n == 0 or v.expires <= v.now or at < v.since then return 0 end
  local l = v.l
  if l.kind == 'b' then
    local full = l.cap
    if v.lv >= full then return 0 end
    local room = fdiv(full - v.lv, l.unit)
    if n <= room then
      local level = v.lv + n * l.unit
      setBucket(v, level, level)
      return n
    end
    setBucket(v, full, full)
    return room
  elseif l.kind == 'w' then
    local w = l.span
    if at + w <= v.now then return 0 end
    for i = 1, v.n do
      if v.W[i] == w and v.A[i] >= at then
        local given = v.C[i]
        if n < given then given = n end
        v.C[i] = v.C[i] - given
        if v.C[i] == 0 then
          remove(v, i)
          windowExpiry(v)
        end
        count(v)
        v.dirty = v.dirty or given > 0
        return given
      end
    end
    return 0
  elseif l.kind == 's' then
    return 0
  end
  if not v.open or v.used <= 0 then return 0 end
  local given = v.used
  if n < given then given = n end
  setCount(v, v.used - given)
  return given
end

local function used(v)
  if v.l.kind == 'b' then return v.l.size - fdiv(v.lv, v.l.unit) end
  return v.used
end

-- forget leaves only since when the state runs, for a microsecond.
local function forget(v, now, tick)
  if v.unit == 0 and v.stamp == 0 and v.n == 0 then return end
  local since = now + 1
  if v.since > since then since = v.since + 1 end
  if v.unit > 0 and v.stamp >= now + tick and v.stamp + tick > since then since = v.stamp + tick end
  if since > MAX then since = MAX end
  v.level, v.unit, v.stamp, v.since, v.expires, v.n, v.dirty = 0, 0, 0, since, since, 0, true
end

-- addSpace keeps the space of KEYS[k] among those of its tag, for as long as a state of it may last.
local tags
local function addSpace(k)
  if not tags then
    tags = {}
    for i = 1, ARGV[1] + 0 do tags[match(KEYS[i], '{(%d+)}spaces$') or ''] = i end
  end
  local space, tag = match(KEYS[k], '^(.-){(%d+)}')
  local t = tags[tag]
  local block = fdiv(expiry[k], 2592000000)
  local row = load(t) or ''
  local ends, n, list = match(row, '^s(%d+),(%d+)( .*)$')
  if not ends then ends, n, list = 0, 0, ' ' end
  local known = find(list, ' ' .. space .. ' ', 1, true)
  if known and ends + 0 >= (block + 1) * 2592000000 + 86400000 then return end
  if not known then n, list = n + 1, list .. space .. ' ' end
  local need = (block + 2) * 2592000000 + 86400000
  if need < ends + 0 then need = ends + 0 end
  rows[t] = fmt('s%.0f,%.0f', need, n) .. list
  if not mark[t] then order[#order + 1] = t end
  mark[t], expiry[t] = true, need
end

-- save keeps v's state for the writes at the end. A row that is new, or will last into another block of 30 days, has its
-- space kept with it. injected: v.wall is not the server's clock, by which keys end.
local function save(v, injected)
  local k, ex = v.k, v.expires
  local fresh = injected or rows[k] == ''
  if not mark[k] then
    order[#order + 1], mark[k] = k, true
  end
  rows[k] = encode(v)
  if injected then
    expiry[k] = cdiv(server + (ex - v.wall), 1000) + 3600000
  else
    expiry[k] = cdiv(ex, 1000) + 120000
    fresh = fresh or fdiv(ex, 2592000000000) > fdiv(v.old, 2592000000000)
  end
  if fresh and ex ~= 0 then addSpace(k) end
end
