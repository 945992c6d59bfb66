-- in: now; the limit's size, cap, gain, unit, tick; the row's level, unit0, stamp, expires. out: lv, the level now; base, the
-- tick from which refill goes on; open: it is not full.
lv, base, open = cap, now, false
if tick > 1 then base = (now - now % tick) / tick end
if expires > now and unit0 > 0 then
  local low = cap - MAX
  if unit0 ~= unit then
    local r = fmod(level, unit0)
    local tokens = (level - r) / unit0
    if r < 0 then tokens = tokens - 1 end
    r = fmod(low, unit)
    local least = (low - r) / unit
    if r < 0 then least = least - 1 end
    if tokens >= size then
      level = cap
    elseif tokens <= least then
      level = low
    else
      level = tokens * unit
    end
  end
  if level < low then level = low elseif level > cap then level = cap end
  local from = stamp
  if tick > 1 then
    local r = stamp % tick
    from = (stamp - r) / tick
    if r > 0 then from = from + 1 end
  end
  if base > from then
    local r = (cap - level) % gain
    local need = (cap - level - r) / gain
    if r > 0 then need = need + 1 end
    if base - from >= need then level = cap else level = level + (base - from) * gain end
  else
    base = from
  end
  lv, open = level, level < cap
end
