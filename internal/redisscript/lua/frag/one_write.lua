-- in: row, the new one; now, expires, before (what expires was), fresh. Writes it, with its space if that may not be kept.
do
  local ms, need
  --@end
  if grown then
    local name, list = KEYS[1], redis.pcall('GET', KEYS[2])
    if type(list) ~= 'string' then list = '' end
    --@space
    if need then redis.call('SET', KEYS[2], list, 'PXAT', fmt('%d', need)) end
  end
  if ms then
    redis.call('SET', KEYS[1], row, 'PXAT', fmt('%d', ms))
  else
    redis.call('SET', KEYS[1], row, 'KEEPTTL')
  end
end
