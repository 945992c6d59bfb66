-- What only a batch needs.
local MAXTICK = 1000000

local function removeUse(v, i)
  table.remove(v.A, i)
  table.remove(v.C, i)
  table.remove(v.U, i)
  v.n = v.n - 1
  v.last = v.A[v.n]
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
    spread(v)
    for i = 1, v.n do
      if v.U[i] == w and v.A[i] >= at then
        local given = v.C[i]
        if n < given then given = n end
        v.C[i] = v.C[i] - given
        if v.C[i] == 0 then
          removeUse(v, i)
          windowExpiry(v)
        end
        countWindow(v)
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
  v.level, v.unit, v.stamp, v.since, v.expires, v.n, v.lean, v.text, v.dirty = 0, 0, 0, since, since, 0, false, nil, true
end

