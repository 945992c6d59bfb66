-- in: those of bucket_open; to, the new level; top, the higher one of before and after. out: the row's level, unit0, stamp,
-- since, expires; lv, base, open.
if expires <= now then
  since, stamp = now, 0
elseif not open and now > since then
  since = now
end
do
  local at, whole = now, now
  if tick > 1 then
    whole = (now - now % tick) / tick
    at = whole * tick
    if at < now and top >= cap - gain then at = at + tick end
  end
  if at > stamp then stamp = at end
  level, unit0, lv, open, base = to, unit, to, to < cap, stamp
  if tick > 1 then
    local r = stamp % tick
    base = (stamp - r) / tick
    if r > 0 then base = base + 1 end
  end
  if whole > base then base = whole end
  local r = (cap - to) % gain
  local ticks, most = (cap - to - r) / gain, CENTURY / tick
  if r > 0 then ticks = ticks + 1 end
  if ticks > most then ticks = most end
  expires = (base + ticks) * tick
  if expires > now + CENTURY then expires = now + CENTURY end
end
