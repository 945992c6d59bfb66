-- Keeps the space of a key among those of its tag, for as long as a state of it may last. Time is in blocks of a month or so,
-- of 39550 parts of 65536 ms (end.lua).
-- in: name, the key; ms, when it ends; list, the row of spaces. out: list and need, its end; need is nil if nothing changed.
do
  local space, block = match(name, '^(.-){'), (ms - ms % 2591948800) / 2591948800
  local ends, many, all = match(list, '^s(%d+),(%d+)( .*)$')
  if not ends then ends, many, all = 0, 0, ' ' end
  ends, many, need = ends + 0, many + 0, nil
  local known = find(all, ' ' .. space .. ' ', 1, true)
  if not known or ends < (block + 1) * 2591948800 + 86400000 then
    if not known then many, all = many + 1, all .. space .. ' ' end
    need = (block + 2) * 2591948800 + 86400000
    if need < ends then need = ends end
    list = fmt('s%d,%d', need, many) .. all
  end
end
