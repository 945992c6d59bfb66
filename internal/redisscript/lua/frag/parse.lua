-- in: row, a text; unit, a number that it is likely to have, and unitText, its text. out: level, unit0, stamp, since, expires;
-- fine says that it is ours.
do
  local lv, un, st, si, ex = match(row, '^p([^,]+),([^,]+),([^,]+),([^,]+),([^,]+)$')
  fine = lv
  if fine then
    lv, un, st, si, ex = tonumber(lv), un == unitText and unit or tonumber(un), tonumber(st), tonumber(si), tonumber(ex)
    fine = lv and un and st and si and ex and lv <= MAX and lv >= -MAX and un <= MAX and un >= 0 and st <= MAX and st >= 0
  end
  if fine then
    level, unit0, stamp, since, expires = lv, un, st, st - si, st + ex
    fine = since <= MAX and since >= -MAX and expires <= MAX and expires >= -MAX
  end
end
