-- fits answers how many of so many charges of cost there is room for.
local function fits(v, cost, times)
  local size, room, price, n = v.l.size, v.l.size - v.used, cost, nil
  if v.lv then room, price = v.lv, cost * v.l.unit end
  --@fits
  return n
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

-- addSpace keeps the space of KEYS[k] with its tag.
local tags
local function addSpace(k)
  if not tags then
    tags = {}
    for i = 1, heads do tags[match(KEYS[i], '{(%d+)}spaces$') or ''] = i end
  end
  local name, ms, need = KEYS[k], expiry[k], nil
  local t = tags[match(name, '{(%d+)}')]
  local list = load(t) or ''
  --@space
  if not need then return end
  rows[t], expiry[t] = list, need
  if not mark[t] then
    order[#order + 1], mark[t] = t, true
  end
end

-- save keeps v's state for the writes at the end. A row that is new, or will last into another month, has its space kept with
-- it. injected: v.wall is not the server's clock, by which keys end.
local function save(v, injected)
  local k, expires, before, ms = v.k, v.expires, v.old, nil
  local fresh = injected or rows[k] == ''
  --@end
  if not mark[k] then
    order[#order + 1], mark[k] = k, true
  end
  rows[k] = encode(v)
  if injected then ms = cdiv(server + (expires - v.wall), 1000) + 3600000 end
  if ms then expiry[k] = ms end
  if grown and expires ~= 0 then addSpace(k) end
end

-- write makes the changes, when all is decided. A row whose end did not change keeps that of its key.
local function write()
  for i = 1, #order do
    local k = order[i]
    local row, ms = rows[k], expiry[k]
    if row == '' then
      call('DEL', KEYS[k])
    elseif ms then
      call('SET', KEYS[k], row, 'PXAT', fmt('%d', ms))
    else
      call('SET', KEYS[k], row, 'KEEPTTL')
    end
  end
end

-- answer is what is answered of a charge that was made so many times; ok: as often as it was asked for.
local function answer(v, cost, times, ok)
  local row = rows[v.k]
  local kind = v.l.kind
  if kind == 'w' or kind == 's' then
    if v.expires <= v.now then
      row = ''
    elseif v.lean then
      row = answerWindow(v, cost, ok)
    elseif kind == 's' and v.n > 0 then
      row = answerSlots(v, cost, ok)
    end
  end
  if times == 1 then return (ok and '1,1,' or '1,0,') .. row end
  return fmt('%d', times) .. (ok and ',1,' or ',0,') .. row
end
