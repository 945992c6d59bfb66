-- in: now; fin, the end of what would open now; the row's level, stamp, expires. out: used, fin, open.
used, open = 0, false
if expires > now and stamp ~= 0 then used, fin, open = level, stamp, true end
