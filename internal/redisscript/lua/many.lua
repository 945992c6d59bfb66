-- Many charges, questions and hits in one call, each on one bucket, counter or budget, by the server's clock: without functions
-- and tables for each, which would cost more than the decisions. ARGV: how many of KEYS, from the first, are lists of spaces;
-- how many limits; the limits; and what to do with states that follow each other:
--   <first, in KEYS>,<how many>,<limit>,<verb>,<times>,<cost>
local fmod, fmt, match, find, tonumber, unpack, call = math.fmod, string.format, string.match, string.find, tonumber, unpack, redis.call
local MAX, CENTURY = 9007199254740991, 3155760000000000
local clock = call('TIME')
local now = clock[1] * 1000000 + clock[2]
local heads, limits = ARGV[1] + 0, ARGV[2] + 2

-- rows are what is under KEYS now, false for nothing, and '' for what is no text. Nothing is written before all is decided: an
-- error in a script does not take back what was written.
local rows, ends, order, changed = {}, {}, {}, {}
for from = heads + 1, #KEYS, 200 do
  local last = from + 199
  if last > #KEYS then last = #KEYS end
  local all, absent = call('MGET', unpack(KEYS, from, last)), {}
  for i = from, last do
    local row = all[i - from + 1]
    rows[i] = row
    if not row then absent[#absent + 1] = KEYS[i] end
  end
  if #absent > 0 and call('EXISTS', unpack(absent)) > 0 then
    for i = from, last do
      if not rows[i] and call('EXISTS', KEYS[i]) > 0 then rows[i] = '' end
    end
  end
end

-- The lists of spaces, read when the first of a tag is needed; those that changed, and when they end.
local tags, lists, needs
-- Pieces of the answer: a row is not put into its line before all are put together.
local out, pieces = {clock[1], ' ', clock[2]}, 3

for r = limits + 1, #ARGV do
  local from, count, l, verb, times, cost = match(ARGV[r], '^(%d+),(%d+),(%d+),(%d),(%d+),(%-?%d+)$')
  times, cost = times + 0, cost + 0
  local kind, size, b, c, d, e = match(ARGV[l + 2], '^(%a)([^,]+),([^,]+),?([^,]*),?([^,]*),?([^,]*)$')
  local gain, unit, unitText, tick, cap, ends1, outside = nil, 0, '0', nil, nil, nil, nil
  size, b = size + 0, b + 0
  if kind == 'b' then
    gain, unit, unitText, tick = b, c + 0, c, d + 0
    cap = size * unit
  elseif kind == 'c' then
    ends1 = now + b
  else
    d, e = d + 0, e + 0
    outside, ends1 = now < b or now >= e, e
    if now < d then ends1 = d end
    if now < c + 0 then ends1 = c + 0 end
  end
  for k = from + 0, from + count - 1 do
    local row, line = rows[k], nil
    local fresh, fine, level, unit0, stamp, since, expires = not row, true, 0, 0, 0, 0, 0
    if row then
      --@parse
    end
    local before, n, change = expires, 0, false
    if not fine then
      line = '\n7'
    elseif outside and verb ~= '3' then
      line = '\n1'
    elseif kind == 'b' then
      local lv, base, open
      --@bucket_open
      local room, price = lv, cost * unit
      --@fits
      if verb == '1' and n > 0 and cost > 0 then
        local to, top = lv - price * n, lv
        --@bucket_set
        row, change = fmt('p%d,%s,%d,%d,%d', level, unitText, stamp, stamp - since, expires - stamp), true
      end
    else
      local fin, used, open, to = ends1, nil, nil, nil
      --@count_open
      if verb == '3' then
        to = used + cost
        if to > MAX or to < -MAX then line = '\n2' end
        if line or cost == 0 then to = nil end
      else
        local room, price = size - used, cost
        --@fits
        if verb == '1' and n > 0 and cost > 0 then to = used + cost * n end
      end
      if to then
        --@count_set
        row, change = fmt('p%d,0,%d,%d,%d', level, stamp, stamp - since, expires - stamp), true
      end
    end
    if change then
      local ms
      --@end
      if grown then
        if not tags then
          tags, lists, needs = {}, {}, {}
          for i = 1, heads do tags[match(KEYS[i], '{(%d+)}spaces$')] = i end
        end
        local name, need = KEYS[k], nil
        local t = tags[match(name, '{(%d+)}')]
        local list = lists[t]
        if not list then
          list = redis.pcall('GET', KEYS[t])
          if type(list) ~= 'string' then list = '' end
        end
        --@space
        lists[t] = list
        if need then needs[t] = need end
      end
      rows[k] = row
      if ms then ends[k] = ms end
      if not changed[k] then
        order[#order + 1], changed[k] = k, true
      end
    end
    if line then
      row = ''
    elseif verb == '3' then
      line = '\n0 0,1,'
    elseif times == 1 then
      line = n == 1 and '\n0 1,1,' or '\n0 0,0,'
    else
      line = fmt('\n0 %d', n) .. (n == times and ',1,' or ',0,')
    end
    out[pieces + 1], out[pieces + 2] = line, row or ''
    pieces = pieces + 2
  end
end

for t, need in pairs(needs or {}) do call('SET', KEYS[t], lists[t], 'PXAT', fmt('%d', need)) end
for i = 1, #order do
  local k = order[i]
  if ends[k] then
    call('SET', KEYS[k], rows[k], 'PXAT', fmt('%d', ends[k]))
  else
    call('SET', KEYS[k], rows[k], 'KEEPTTL')
  end
end
return table.concat(out)
