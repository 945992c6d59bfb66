-- When a key ends: a minute or two after its state. To move that is as costly as the rest of a write, so it is done only when
-- the state's end is in another part of 65 seconds.
-- in: expires; before, what it was; fresh, the row is new. out: ms, the key's end if it moves; grown: its space may not be kept.
local grown
do
  local part, old = (expires - expires % 65536000) / 65536000, (before - before % 65536000) / 65536000
  if fresh or part ~= old then
    ms = (part + 2) * 65536
    grown = fresh or part - part % 39550 > old - old % 39550
  end
end
