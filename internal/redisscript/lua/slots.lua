-- Slots are held until a time of their own. The row is
--   s<since>,<n>,<sum>;<end>:<cost>:<holder>;...
-- in order of end and holder. It is not taken apart: there may be thousands.
function openSlots(v, s)
  local since, n, sum, at = match(s, '^s([^,]+),([^,]+),([^;]+);()')
  local last = match(sub(s, -60), '(%d+):%d+:%d+;$')
  since, n, sum, last = tonumber(since or ''), tonumber(n or ''), tonumber(sum or ''), tonumber(last or '')
  if not (since and n and sum and last) or since > MAX or n < 1 or sum < 0 or sum > MAX or last > MAX then return false end
  v.s, v.start, v.at, v.n, v.live, v.sum, v.since, v.last, v.expires = s, at, at, n, n, sum, since, last, last
  return true
end

-- countSlots is what is held now.
function countSlots(v)
  local left = v.sum
  while v.at <= #v.s do
    local till, cost, e = match(v.s, '^(%d+):(%d+):%d+;()', v.at)
    if not till then error('ration: a row of slots cannot be read') end
    if till + 0 > v.now then break end
    left, v.at, v.live = left - cost, e, v.live - 1
  end
  v.used = left
end

-- answerSlots is what is answered of slots instead of their row: what is used, when all are free, and when there will be room
-- for cost, if it was refused and can pass.
function answerSlots(v, cost, ok)
  local room, left, at = 0, v.used, v.at
  if not ok and cost <= v.l.size then
    room = v.now
    while at <= #v.s do
      local till, c, e = match(v.s, '^(%d+):(%d+):%d+;()', at)
      left, at = left - c, e
      if left <= v.l.size - cost then
        room = till + 0
        break
      end
    end
  end
  return fmt('v%d,%d,%d', v.used, v.last, room)
end
