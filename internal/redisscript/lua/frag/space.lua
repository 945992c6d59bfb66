-- Keeps the space of a key among those of its tag, for as long as a state of it may last.
-- in: name, the key; ms, when it ends; list, the row of spaces. out: list and need, its end; need is nil if nothing changed.
do
  local space, block = match(name, '^(.-){'), (ms - fmod(ms, 2592000000)) / 2592000000
  local ends, many, all = match(list, '^s(%d+),(%d+)( .*)$')
  if not ends then ends, many, all = 0, 0, ' ' end
  ends, many, need = ends + 0, many + 0, nil
  local known = find(all, ' ' .. space .. ' ', 1, true)
  if not known or ends < (block + 1) * 2592000000 + 86400000 then
    if not known then many, all = many + 1, all .. space .. ' ' end
    need = (block + 2) * 2592000000 + 86400000
    if need < ends then need = ends end
    list = fmt('s%.0f,%.0f', need, many) .. all
  end
end
