-- One charge, or one question if no key of spaces is sent, by the server's clock. KEYS: the state, the spaces of its tag.
-- ARGV: the limit, the cost, how many times if not once, or h for a hit.
heads = #KEYS
local function decide()
  local v = view(1, limit(ARGV[1]), server)
  if not v then return '7' end
  local cost, times = tonumber(ARGV[2]), ARGV[3]
  if times == 'h' then
    local sum = v.used + cost
    if sum > MAX or sum < -MAX then return '2' end
    if cost ~= 0 then
      setCount(v, sum)
      save(v, false)
    end
    return '0 0,1,' .. rows[1]
  end
  if not v.bounded then return '1' end
  times = times and tonumber(times) or 1
  local n = fits(v, cost, times)
  if heads == 2 then
    charge(v, cost * n)
    if v.dirty then save(v, false) end
  end
  return '0 ' .. answer(v, cost, n, n == times)
end

local line = decide()
write()
return clock[1] .. ' ' .. clock[2] .. '\n' .. line
