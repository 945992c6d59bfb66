-- in: those of count_open; to, the new count; the row's since. out: the row's level, unit0, stamp, since, expires; open.
if not open then
  if expires <= now or since < now then since = now end
  unit0, stamp, expires, open = 0, fin, fin, true
end
level, used = to, to
