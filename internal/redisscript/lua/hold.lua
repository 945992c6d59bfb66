-- Holds and ids. The record of one is a text:
--   h<state>,<return>,<clock>,<digest>,<at>,<ttl>,<expires>,<keep>,<n>
-- and for each op: its key, its limit, its numbers as the caller gave them, and
--   <cost>,<used>,<reset>,<charged>,<reported>,<settled>,<given>,<at>
-- where at is when it was charged by the state's clock, which may be ahead: what goes back is what was charged then.
-- The open ones are in a sorted set of their tag, by expiry; those that an injected clock wrote last (clock 1) are in another,
-- under the key after it.
local ANSWERED, OPEN, SETTLED, CANCELLED, LAPSED = 1, 2, 3, 4, 5
-- A day in microseconds, a year in milliseconds.
local ENDEDFOR, OPENFOR = 86400000000, 31557600000

local function max(a, b)
  if a > b then return a end
  return b
end

-- resetAt is when v's limit is unused again.
local function resetAt(v)
  local l, at, kind = v.l, v.wall, v.l.kind
  if kind == 'b' then
    if v.lv < l.cap then
      local ticks, most = cdiv(l.cap - v.lv, l.gain), fdiv(CENTURY, l.tick)
      if ticks > most then ticks = most end
      at = (v.base + ticks) * l.tick
      if at > v.expires then at = v.expires end
    end
  elseif kind == 'w' then
    if v.lean and v.expires > v.now then
      at = v.last + v.W
    elseif v.expires > v.now then
      for i = 1, v.n do
        local w = v.U[i]
        if w > l.span then w = l.span end
        if v.A[i] + w > v.now then at = max(at, v.A[i] + w) end
      end
    end
  elseif kind == 's' then
    if v.n > 0 and v.expires > v.now then at = v.last end
  else
    at = v.fin
  end
  at = max(at, v.wall)
  if at > v.wall + CENTURY then at = v.wall + CENTURY end
  return at
end

-- setSlots gives v's slots a new row, of all that are held.
local function setSlots(v, body, n, sum, since)
  v.dirty, v.text = true, nil
  if n == 0 then
    v.level, v.unit, v.stamp, v.since, v.expires, v.n, v.used = 0, 0, 0, 0, 0, 0, 0
    return
  end
  v.text = fmt('s%d,%d,%d;', since, n, sum) .. body
  openSlots(v, v.text)
  v.used = 0
  if v.expires > v.now then countSlots(v) end
end

-- insert adds slots where the order wants them, which is nearly always the end.
local function insert(v, body, n, sum, since, till, cost, holder)
  local p = #body
  while p > 0 do
    local a, c, h = match(sub(body, p > 60 and p - 59 or 1, p), '(%d+):(%d+):(%d+);$')
    if a + 0 < till or a + 0 == till and h + 0 < holder then break end
    p = p - #a - #c - #h - 3
  end
  body = sub(body, 1, p) .. fmt('%d:%d:%d;', till, cost, holder) .. sub(body, p + 1)
  setSlots(v, body, n + 1, sum + cost, since)
end

local function take(v, n, holder, till)
  if n == 0 then return end
  if v.expires <= v.now or v.n == 0 then
    local since = v.now
    if v.expires > v.now then since = v.since end
    return insert(v, '', 0, 0, since, till, n, holder)
  end
  insert(v, sub(v.s, v.at), v.live, v.used, v.since, till, n, holder)
end

-- held takes what holder holds out of the text, and answers it, its end and its cost; nil if that is nothing.
local function held(v, holder)
  if v.expires <= v.now or v.n == 0 then return nil end
  local mine = fmt(':%d;', holder)
  local i = find(v.s, mine, v.start, true)
  if not i then return nil end
  local till, cost = match(sub(v.s, i - 40, i - 1), '(%d+):(%d+)$')
  local body = sub(v.s, v.start, i - #till - #cost - 2) .. sub(v.s, i + #mine)
  return body, till + 0, cost + 0
end

local function free(v, holder)
  local body, till, cost = held(v, holder)
  if not body then return 0 end
  local given = till > v.now and cost or 0
  setSlots(v, body, v.n - 1, v.sum - cost, v.since)
  return given
end

local function extend(v, holder, till)
  local body, old, cost = held(v, holder)
  if not body or old <= v.now then return false end
  insert(v, body, v.n - 1, v.sum - cost, v.since, till, cost, holder)
  return true
end

-- debit charges n whether it fits or not.
local function debit(v, n)
  if n == 0 then return end
  local l = v.l
  if l.kind == 'b' then
    local low = l.cap - MAX
    if n > fdiv(v.lv - low, l.unit) then setBucket(v, low, v.lv) else charge(v, n) end
  elseif l.kind == 'w' then
    chargeWindow(v, n)
  else
    n = v.used + n
    if n > MAX then n = MAX end
    setCount(v, n)
  end
end

-- record is what is kept under KEYS[h]; nil if nothing is at that time (old: at any), false if it is not ours.
local function record(h, now, old)
  local s = load(h)
  if s == '' then return nil end
  if not s then return false end
  local state, ret, wrote, digest, at, ttl, expires, keep, n, e = match(s, '^h(%d),(%d),(%d),(%x+),(%d+),(%d+),(%d+),(%d+),(%d+)()')
  if not state then return false end
  local r = {state = state + 0, ret = ret == '1', clock = wrote + 0, digest = digest, at = at + 0, ttl = ttl + 0, expires = expires + 0, keep = keep + 0, h = h}
  if r.keep <= now and not old then return nil end
  for i = 1, n do
    local key, l, raw, cost, use, reset, charged, reported, settled, given, when, f =
      match(s, '^ (%S+) (%S+) (%S+) (%d+),(%d+),(%d+),(%d+),(%d+),(%d+),(%d+),(%d+)()', e)
    if not key then return false end
    r[i], e = {key = key, limit = l, raw = raw, cost = cost + 0, used = use, reset = reset, charged = charged + 0, reported = reported + 0,
      settled = settled + 0, given = given + 0, at = when + 0, slots = string.sub(l, 1, 1) == 's'}, f
  end
  if e ~= #s + 1 then return false end
  return r
end

-- due are the changes of the sorted sets: under the place of its key, the score of each record, or false.
due = {}
local function setDue(d, h, score)
  due[d] = due[d] or {}
  due[d][h] = score
end

-- keepRecord keeps r for the writes at the end.
local function keepRecord(r, d, now, injected)
  local clock = injected and 1 or 0
  local out = {fmt('h%d,%d,%d,%s,%d,%d,%d,%d,%d', r.state, r.ret and 1 or 0, clock, r.digest, r.at, r.ttl, r.expires, r.keep, #r)}
  for i = 1, #r do
    local o = r[i]
    out[i + 1] = fmt('%s %s %s %d,%s,%s,%d,%d,%d,%d,%d', o.key, o.limit, o.raw, o.cost, o.used, o.reset, o.charged, o.reported, o.settled, o.given, o.at)
  end
  local h = r.h
  rows[h] = concat(out, ' ')
  if not mark[h] then
    order[#order + 1], mark[h] = h, true
  end
  -- An open hold stays until it is ended, though nobody sweeps for long.
  local margin = r.state == OPEN and OPENFOR or 120000
  if injected then
    expiry[h] = cdiv(server + max(r.keep - now, 0), 1000) + 3600000 + margin
  else
    expiry[h] = cdiv(r.keep, 1000) + margin
  end
  if r.state ~= ANSWERED then
    setDue(d + clock, h, r.state == OPEN and r.expires)
    if r.clock == 1 - clock then setDue(d + r.clock, h, false) end
    r.clock = clock
  end
end

-- lifeOf is the end of a hold that is made or renewed now.
local function lifeOf(r, now, ttl)
  for i = 1, #r do
    if r[i].slots then
      local lease = limit(r[i].limit).span
      if lease < ttl then ttl = lease end
    end
  end
  return now + ttl
end

local function takeOnce(s, now, injected, at)
  local h, d, flags, ttl, holder, digest, e = match(s, '^,(%d+),(%d+),(%d),(%d+),(%d+),(%x+)()', at)
  h, d, flags, ttl, holder = h + 0, d + 0, flags + 0, ttl + 0, holder + 0
  local r = record(h, now)
  if r == false then return '7' end
  if r then
    if r.digest ~= digest then return '3' end
    local line = {fmt('21 %d', r.at)}
    for i = 1, #r do line[i + 1] = r[i].used .. ',' .. r[i].reset .. ',' end
    return concat(line, ' ')
  end
  r = {state = ANSWERED, ret = flags >= 2, digest = digest, at = now, ttl = ttl, expires = 0, keep = now + ttl, h = h}
  local views, n = {}, 0
  while true do
    local k, l, cost, raw, f = match(s, '^;(%d+),(%d+),(%d+),([%d:-]+)()', e)
    if not k then break end
    n, e = n + 1, f
    local v = view(k + 0, limit(ARGV[l + 2]), now)
    if not v then return '7' end
    if not v.bounded then return '1' end
    views[n] = v
    r[n] = {key = KEYS[k + 0], limit = ARGV[l + 2], raw = raw, cost = cost + 0, charged = cost + 0, reported = 0, settled = 0, given = 0, slots = v.l.kind == 's'}
  end
  if flags % 2 == 1 then
    r.state, r.expires = OPEN, lifeOf(r, now, ttl)
    r.keep = r.expires + ENDEDFOR
  end
  local all, line = true, {'0'}
  for i = 1, n do
    local v = views[i]
    v.times = fits(v, r[i].cost, 1)
    all = all and v.times == 1
  end
  for i = 1, n do
    local v = views[i]
    local ok = v.times
    if all then
      if r[i].slots then take(v, r[i].cost, holder, r.expires) else charge(v, r[i].cost) end
      if v.dirty then save(v, injected) end
      local u = used(v)
      if u > MAX then u = MAX end
      r[i].at = v.l.kind == 'w' and v.now or max(v.now, v.since)
      r[i].used, r[i].reset = fmt('%d', max(0, u)), fmt('%d', resetAt(v))
    elseif n > 1 then
      v.times = 0
    end
    line[i + 1] = answer(v, r[i].cost, v.times, ok == 1)
  end
  if all then
    local old = load(h) ~= ''
    keepRecord(r, d, now, injected)
    -- The hold before was over long ago, but may not have been swept.
    if old then
      for i = d, d + 1 do
        if not (due[i] and due[i][h]) then setDue(i, h, false) end
      end
    end
  end
  return concat(line, ' ')
end

-- giveBack ends the charges of r but for what was reported, and answers the views; nil if a state is not ours.
local function giveBack(r, keys, limits, holder, now, injected)
  local views = {}
  for i = 1, #r do
    views[i] = view(keys[i], limit(limits and limits[i] or r[i].limit), now)
    if not views[i] then return nil end
  end
  for i = 1, #r do
    local o, v = r[i], views[i]
    if o.slots then o.given = free(v, holder) else o.given = refund(v, o.charged - o.reported, o.at) end
    o.charged = o.reported
    if v.dirty then save(v, injected) end
  end
  return views
end

local function lapse(r, d, keys, holder, now, injected)
  if r.ret and not giveBack(r, keys, nil, holder, now, injected) then return false end
  r.state = LAPSED
  keepRecord(r, d, now, injected)
  return true
end

-- amountsOf is what the caller says was used, for each op; nil if nothing, false if it does not fit the ops.
local function amountsOf(r, verb, given)
  if verb ~= 7 and verb ~= 9 then return nil end
  if #given == #r then return given end
  local all = {}
  if #given == 0 then
    if verb == 9 then return nil end
    for i = 1, #r do all[i] = max(r[i].cost, r[i].reported) end
  elseif #given == 1 then
    local cost
    for i = 1, #r do
      all[i] = 0
      if not r[i].slots then
        if cost and r[i].cost ~= cost then return false end
        cost, all[i] = r[i].cost, given[1]
      end
    end
  else
    return false
  end
  return all
end

-- endOf decides Settle (7), Cancel (8), Progress (9), Renew (10) and the lapse of a sweep (12).
local function endOf(s, verb, now, injected, at)
  local h, d, holder, ttl, list, e = match(s, '^,(%d+),(%d+),(%d+),(%d+),([%d:]*)()', at)
  h, d, holder, ttl = h + 0, d + 0, holder + 0, ttl + 0
  local r = record(h, now, verb == 12)
  if r == false then return '7' end
  if verb == 12 and (not r or r.state ~= OPEN or r.expires > now) then
    if not r or r.state ~= OPEN then
      setDue(d, h, false)
      setDue(d + 1, h, false)
    end
    return '0'
  end
  if not r or r.state == ANSWERED then return '4' end
  local keys, bounds, given, same = {}, {}, {}, true
  for n in string.gmatch(list, '%d+') do given[#given + 1] = n + 0 end
  while true do
    local k, b, f = match(s, '^;(%d+),?([%d,-]*)()', e)
    if not k then break end
    keys[#keys + 1], e = k + 0, f
    if b ~= '' then bounds[#keys] = b end
  end
  same = #keys == #r
  for i = 1, #r do same = same and KEYS[keys[i]] == r[i].key end
  local function answer(code, allowed, lines)
    return code .. (allowed and ' 1 ' or ' 0 ') .. concat(lines or {}, ' ') .. '!' .. rows[h]
  end
  local amounts = amountsOf(r, verb, given)
  if amounts == false then return answer('6') end
  if not same and (r.state == OPEN or r.state == LAPSED and verb == 7) then return '20 ' .. rows[h], true end
  if r.state == OPEN and r.expires <= now and not lapse(r, d, keys, holder, now, injected) then return '7' end
  if verb == 12 then return '0' end
  local limits, lines = {}, {}
  for i = 1, #r do
    limits[i] = r[i].limit
    local size = bounds[i] and match(r[i].limit, '^m%d+')
    if size then limits[i] = size .. ',' .. bounds[i] end
  end
  local function show(views, oks)
    for i = 1, #r do
      lines[i] = fmt('%d,%d,%d,%d', verb < 9 and r[i].given or 0, (not oks or oks[i]) and 1 or 0, max(0, used(views[i])), resetAt(views[i]))
    end
    return lines
  end
  if verb == 8 then
    if r.state ~= OPEN then
      for i = 1, #r do lines[i] = fmt('%d,1,0,0', r.state == CANCELLED and r[i].given or 0) end
      return answer('0', true, lines)
    end
    local views = giveBack(r, keys, limits, holder, now, injected)
    if not views then return '7' end
    r.state, r.keep = CANCELLED, now + ENDEDFOR
    keepRecord(r, d, now, injected)
    return answer('0', true, show(views))
  end
  if verb == 7 and r.state == CANCELLED or verb > 8 and r.state ~= OPEN then return answer('5') end
  if verb == 7 and r.state == SETTLED then
    for i = 1, #r do
      if not r[i].slots and r[i].settled ~= amounts[i] then return answer('5') end
      lines[i] = fmt('%d,1,0,0', r[i].given)
    end
    return answer('0', true, lines)
  end
  local views, oks, all = {}, {}, true
  for i = 1, #r do
    views[i] = view(keys[i], limit(limits[i]), now)
    if not views[i] then return '7' end
  end
  if verb > 8 and ttl > 0 then r.ttl = ttl end
  local expires = lifeOf(r, now, r.ttl)
  for i = 1, #r do
    local o, v, fit = r[i], views[i], true
    if verb == 7 then
      local more = amounts[i] - o.charged
      o.given = 0
      if o.slots then
        o.given = free(v, holder)
      elseif more > 0 then
        if not v.bounded and not v.open then return answer('1') end
        debit(v, more)
      elseif more < 0 then
        o.given = refund(v, -more, o.at)
      end
      o.charged, o.settled = amounts[i], amounts[i]
    elseif o.slots then
      if not extend(v, holder, expires) and o.cost > 0 then return answer('5') end
    elseif amounts then
      o.reported = max(o.reported, amounts[i])
      local more = o.reported - o.charged
      if more > 0 then
        if not v.bounded and not v.open then return answer('1') end
        debit(v, more)
        o.charged = o.reported
      end
    end
    -- Said again until it fits: the first answer may be lost.
    if verb == 9 and o.reported > o.cost then fit = used(v) <= v.l.size end
    oks[i], all = fit, all and fit
  end
  for i = 1, #r do
    if views[i].dirty then save(views[i], injected) end
  end
  if verb == 7 then
    r.state, r.keep = SETTLED, now + ENDEDFOR
  else
    r.expires, r.keep = expires, expires + ENDEDFOR
  end
  keepRecord(r, d, now, injected)
  return answer('0', all, show(views, oks))
end

hold = function(s, verb, now, injected, at)
  local _, d = match(s, '^,(%d+),(%d+)', at)
  -- It is written to last, and must not fail then.
  if type(pcall('ZCARD', KEYS[d + 0])) == 'table' or type(pcall('ZCARD', KEYS[d + 1])) == 'table' then return '7' end
  if verb == 11 then return takeOnce(s, now, injected, at) end
  return endOf(s, verb, now, injected, at)
end
