-- ARGV: how many of KEYS, from the first, are no states: lists of spaces, and of open holds; how many limits; the limits;
-- the transactions.
heads = ARGV[1] + 0
local first, out = ARGV[2] + 2, {clock[1] .. ' ' .. clock[2]}

-- The states of a batch are read by one command. MGET answers nil for what is no string.
local function preload()
  for from = heads + 1, #KEYS, 200 do
    local last = from + 199
    if last > #KEYS then last = #KEYS end
    local all, absent = call('MGET', unpack(KEYS, from, last)), {}
    for i = from, last do
      local s = all[i - from + 1]
      rows[i] = s or ''
      if not s then absent[#absent + 1] = KEYS[i] end
    end
    if #absent > 0 and call('EXISTS', unpack(absent)) > 0 then
      for i = from, last do rows[i] = nil end
    end
  end
end
if #KEYS > heads + 1 then preload() end

local function decide(s)
  local verb, now, at = match(s, '^(%d+),(%d+)()')
  local injected = now ~= '0'
  verb, now = verb + 0, injected and now + 0 or server
  if verb > 6 then return hold(s, verb, now, injected, at) end
  if verb == 6 then
    local k, n, e = match(s, '^,(%d+),(%d+)()', at)
    local spaces = load(k + 0) or ''
    if (match(spaces, '^s%d+,(%d+) ') or '0') ~= n then return '20 ' .. spaces, true end
    for i in string.gmatch(string.sub(s, e), '%d+') do
      local v = {k = i + 0, wall = now, level = 0, unit = 0, stamp = 0, since = 0, expires = 0, n = 0}
      local row = load(v.k)
      if row and row ~= '' and parse(v, row) then
        v.old = v.expires
        if v.expires <= now then
          v.expires, v.n = 0, 0
        else
          local t = now
          if v.n > 0 and v.last > t then t = v.last end
          forget(v, t, MAXTICK)
        end
        save(v, injected)
      end
    end
    return '0'
  end
  local views, costs, more, n = {}, {}, {}, 0
  while true do
    local k, l, c, x, e = match(s, '^;(%d+),(%d+),(%-?%d+),(%-?%d+)()', at)
    if not k then break end
    n, at = n + 1, e
    local v = view(k + 0, limit(ARGV[l + 2]), now)
    if not v then return '7' end
    if not v.bounded and verb < 3 then return '1' end
    views[n], costs[n], more[n] = v, c + 0, x + 0
  end
  local line = {'0'}
  if verb < 3 then
    local all = true
    for i = 1, n do
      local v = views[i]
      v.times = fits(v, costs[i], more[i])
      v.ok = v.times == more[i]
      all = all and v.ok
    end
    for i = 1, n do
      local v = views[i]
      if verb == 1 then
        if not all and n > 1 then v.times = 0 end
        charge(v, costs[i] * v.times)
        if v.dirty then save(v, injected) end
      end
      line[i + 1] = answer(v, costs[i], v.times, v.ok)
    end
  elseif verb == 3 then
    for i = 1, n do
      local v = views[i]
      local sum = v.used + costs[i]
      if sum > MAX or sum < -MAX then return '2' end
    end
    for i = 1, n do
      local v = views[i]
      if costs[i] ~= 0 then
        setCount(v, v.used + costs[i])
        save(v, injected)
      end
      line[i + 1] = '0,1,' .. rows[v.k]
    end
  elseif verb == 4 then
    for i = 1, n do
      local v = views[i]
      local given = refund(v, costs[i], more[i])
      if v.dirty then save(v, injected) end
      local n = used(v)
      line[i + 1] = fmt('%d,%d', given, n > 0 and n or 0)
    end
  else
    for i = 1, n do
      local v = views[i]
      if v.expires > v.now then
        forget(v, v.now, v.l.kind == 'b' and v.l.tick or 0)
        if v.dirty then save(v, injected) end
      end
    end
  end
  return concat(line, ' ')
end

for i = first + 1, #ARGV do
  local line, stop = decide(ARGV[i])
  out[#out + 1] = line
  if stop then break end
end

write()
for d, members in pairs(due or {}) do
  for h, score in pairs(members) do
    local id = match(KEYS[h], '}hold:(.*)$')
    if not score then
      call('ZREM', KEYS[d], id)
    else
      call('ZADD', KEYS[d], fmt('%d', score), id)
      local left = call('PTTL', KEYS[d])
      if left < expiry[h] - server / 1000 then call('PEXPIREAT', KEYS[d], fmt('%d', expiry[h])) end
    end
  end
end
return concat(out, '\n')
