-- in: row, the new one; now, expires, before (what expires was), fresh. Writes it, with its space if that may not be kept.
do
  local ms, need = (expires - fmod(expires, 1000)) / 1000 + 120001, nil
  local moved = expires ~= before
  if fresh or moved and (expires - fmod(expires, 2592000000000)) / 2592000000000 > (before - fmod(before, 2592000000000)) / 2592000000000 then
    local name, list = KEYS[1], redis.pcall('GET', KEYS[2])
    if type(list) ~= 'string' then list = '' end
    --@space
    if need then redis.call('SET', KEYS[2], list, 'PXAT', fmt('%.0f', need)) end
  end
  if fresh or moved then
    redis.call('SET', KEYS[1], row, 'PXAT', fmt('%.0f', ms))
  else
    redis.call('SET', KEYS[1], row, 'KEEPTTL')
  end
end
