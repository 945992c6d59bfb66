-- One charge or question on a sliding window as in onebucket.lua, if its uses are all of the asking window and need not be
-- joined; else what follows this decides.
do
  local fmt, match, find, sub, tonumber = string.format, string.match, string.find, string.sub, tonumber
  local MAX, CENTURY = 9007199254740991, 3155760000000000
  local clock = redis.call('TIME')
  local wall = clock[1] * 1000000 + clock[2]
  local row, cost, times, n = redis.pcall('GET', KEYS[1]), ARGV[2] + 0, tonumber(ARGV[3] or 1), nil
  local size, W = match(ARGV[1], '^w([^,]+),([^,]+)$')
  local now, fresh, lean = wall, not row, not row
  local uses, sum, first, last, tail, since, at, before, expires = 0, 0, 0, 0, 0, 0, 1, 0, 0
  local body = ''
  if type(row) == 'string' then
    local w, b, c, d, e, f, g, pos = match(row, '^w([^,]+),([^,]+),([^,]+),([^,]+),([^,]+),([^,]+),([^;]+);()')
    b, c, d, e, f, g = tonumber(b or ''), tonumber(c or ''), tonumber(d or ''), tonumber(e or ''), tonumber(f or ''), tonumber(g or '')
    if w == W and b and c and d and e and f and g and c <= MAX then
      uses, sum, first, last, tail, since, at, body = b, c, d, d + e, f, d - g, pos, row
      expires = last + W
      before, lean = expires, expires > wall and expires <= MAX
      if last > now then now = last end
    end
  end
  W, size = W + 0, size + 0
  while lean and uses > 0 and first + W <= now do
    local d, c, e = match(body, '^(%d+):?(%d*);()', at)
    if not d then error('ration: a row of a window cannot be read') end
    uses, sum, first, at = uses - 1, sum - (c == '' and 1 or c + 0), first + d, e
  end
  local room, price = size - sum, cost
  --@fits
  local charge = KEYS[2] and cost * n or 0
  local joins = uses == 0 or last ~= now
  if lean and sum + charge <= MAX and (charge == 0 or uses < 256 or not joins) then
    if charge > 0 then
      body = sub(body, at)
      if uses == 0 then
        first, tail, since = now, charge, now
      elseif joins then
        body = body .. (tail == 1 and fmt('%d;', now - last) or fmt('%d:%d;', now - last, tail))
        tail = charge
      else
        tail = tail + charge
      end
      if joins then uses = uses + 1 end
      sum, last, expires = sum + charge, now, now + W
      row = fmt('w%d,%d,%d,%d,%d,%d,%d;', W, uses, sum, first, last - first, tail, first - since)
      at = #row + 1
      row = row .. body
      body = row
      --@one_write
    end
    local ok, left = n == times, sum
    room = 0
    if not ok and cost <= size then
      room = last + W
      while at <= #body do
        local d, c, e = match(body, '^(%d+):?(%d*);()', at)
        if not d then error('ration: a row of a window cannot be read') end
        left = left - (c == '' and 1 or c + 0)
        if left <= size - cost then
          room = first + W
          break
        end
        first, at = first + d, e
      end
    end
    local answer = clock[1] .. ' ' .. clock[2] .. '\n0 ' .. fmt('%d', n) .. (ok and ',1,' or ',0,')
    if uses == 0 then return answer end
    return answer .. fmt('v%d,%d,%d', sum, last + W, room)
  end
end
