-- A bucket: v.lv is its level now, v.base the tick from which refill goes on, v.open says that it is not full.
function openBucket(v)
  local l, now = v.l, v.now
  local size, cap, gain, unit, tick = l.size, l.cap, l.gain, l.unit, l.tick
  local level, unit0, stamp, expires, lv, base, open = v.level, v.unit, v.stamp, v.expires, nil, nil, nil
  --@bucket_open
  v.lv, v.base, v.open = lv, base, open
end

-- setBucket sets the level; top is the higher one of before and after.
function setBucket(v, to, top)
  local l, now, lv, base, open, level, unit0, stamp, since, expires = v.l, v.now, v.lv, v.base, v.open, nil, nil, v.stamp, v.since, v.expires
  local cap, gain, unit, tick = l.cap, l.gain, l.unit, l.tick
  --@bucket_set
  v.level, v.unit, v.stamp, v.since, v.expires, v.lv, v.base, v.open, v.dirty = level, unit0, stamp, since, expires, lv, base, open, true
end
