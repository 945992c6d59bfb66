-- Counters and budgets: v.fin is the end of the window or period, v.open says that one is open.
function openCount(v)
  local now, fin, level, stamp, expires, used, open = v.now, v.fin, v.level, v.stamp, v.expires, nil, nil
  --@count_open
  v.used, v.fin, v.open = used, fin, open
end

function setCount(v, to)
  local now, fin, used, open, level, unit0, stamp, since, expires = v.now, v.fin, v.used, v.open, v.level, v.unit, v.stamp, v.since, v.expires
  --@count_set
  v.level, v.unit, v.stamp, v.since, v.expires, v.used, v.open, v.dirty = level, unit0, stamp, since, expires, used, open, true
end
