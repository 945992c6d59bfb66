-- in: cost, times, size; room, and price, what a charge takes of it. out: n, how many charges there is room for.
n = 0
if cost == 0 then
  if room >= 0 then n = times end
elseif cost <= size and room >= price then
  n = 1
  if times > 1 then
    n = (room - room % price) / price
    if n > times then n = times end
  end
end
