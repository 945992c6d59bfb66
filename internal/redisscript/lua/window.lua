-- A sliding window keeps its uses in order of time. Nearly always all were charged with one window; then the row is
--   w<window>,<n>,<sum>,<first>,<last - first>,<last's cost>,<first - since>;<time to the next>[:<cost, if not 1>];...
-- and a charge works on both ends of the text without taking it apart (v.lean). Else it is
--   u<since>,<expires>,<n>|<time since the one before>:<cost>:<window>|...
local MAXUSES, JOINPARTS = 256, 128

function openWindow(v, s)
  local W, n, sum, first, last, tail, since, at = match(s, '^w([^,]+),([^,]+),([^,]+),([^,]+),([^,]+),([^,]+),([^;]+);()')
  if W then
    W, n, sum, first, last, tail, since = tonumber(W), tonumber(n), tonumber(sum), tonumber(first), tonumber(last), tonumber(tail), tonumber(since)
    if not (W and n and sum and first and last and tail and since) then return false end
    last, since = first + last, first - since
    if W < 1 or W > MAX or n < 1 or sum < 0 or sum > MAX or first < 0 or last < first or last > MAX or tail < 0 or tail > MAX or since > MAX then return false end
    v.lean, v.text, v.s, v.at, v.start = true, nil, s, at, at
    v.W, v.n, v.sum, v.first, v.last, v.tail, v.since, v.head = W, n, sum, first, last, tail, since, first
    v.expires = last + W
    if v.expires > MAX then v.expires = MAX end
    return true
  end
  local ex
  since, ex, n, at = match(s, '^u(%d+),(%d+),(%d+)()')
  if not since then return false end
  since, ex, n, last = since + 0, ex + 0, n + 0, 0
  local A, C, U = {}, {}, {}
  for i = 1, n do
    local d, c, w, e = match(s, '^|(%d+):(%d+):(%d+)()', at)
    if not d then return false end
    last = last + d
    A[i], C[i], U[i], at = last, c + 0, w + 0, e
    if C[i] > MAX or U[i] > MAX or U[i] < 1 then return false end
  end
  if at ~= #s + 1 or n < 1 or last > MAX or since > MAX or ex > MAX then return false end
  v.A, v.C, v.U, v.n, v.last, v.since, v.expires = A, C, U, n, last, since, ex
  return true
end

-- next reads the first but the last use of v's text: the time to the one after it, its cost, and where that begins.
local function next(v)
  local d, c, e = match(v.s, '^(%d+):?(%d*);()', v.at)
  if not d then error('ration: a row of a window cannot be read') end
  return d + 0, c == '' and 1 or c + 0, e
end

-- drop leaves out what is over, for a limit whose window is that of all uses.
local function drop(v)
  local W, now = v.W, v.now
  while v.first + W <= now do
    local d, c, e = next(v)
    v.sum, v.first, v.at, v.n = v.sum - c, v.first + d, e, v.n - 1
  end
  v.used = v.sum
end

-- spread takes a lean row apart into A (at), C (cost), U (window).
function spread(v)
  if not v.lean then return end
  local A, C, U, at = {}, {}, {}, v.head
  local n = 1
  v.at, v.lean = v.start, false
  while v.at <= #v.s do
    local d, c, e = next(v)
    A[n], C[n], U[n] = at, c, v.W
    n, at, v.at = n + 1, at + d, e
  end
  A[n], C[n], U[n] = at, v.tail, v.W
  v.A, v.C, v.U, v.n = A, C, U, n
end

local function count(v)
  local sum, now, span, A, C, U = 0, v.now, v.l.span, v.A, v.C, v.U
  for i = 1, v.n do
    local w = U[i]
    if w > span then w = span end
    if A[i] + w > now then
      sum = sum + C[i]
      if sum > MAX then sum = MAX end
    end
  end
  v.used = sum
end

-- countWindow is what counts now.
function countWindow(v)
  if v.lean and v.W == v.l.span then
    drop(v)
  elseif v.n > 0 then
    spread(v)
    count(v)
  else
    v.used = 0
  end
end

local function windowExpiry(v)
  if v.n == 0 then
    v.level, v.unit, v.stamp, v.since, v.expires = 0, 0, 0, 0, 0
  end
  for i = 1, v.n do
    local e = v.A[i] + v.U[i]
    if e > MAX then e = MAX end
    if i == 1 or e > v.expires then v.expires = e end
  end
end

local function lean(v, W, n, sum, first, last, tail, since, body)
  v.W, v.n, v.sum, v.first, v.last, v.tail, v.since, v.head = W, n, sum, first, last, tail, since, first
  v.text = fmt('w%d,%d,%d,%d,%d,%d,%d;', W, n, sum, first, last - first, tail, first - since)
  v.start = #v.text + 1
  v.text = v.text .. body
  v.s, v.at, v.used, v.lean, v.dirty = v.text, v.start, sum, true, true
  v.expires = last + W
  if v.expires > MAX then v.expires = MAX end
end

-- join makes one of all uses of one window that lie in one part of it.
local function join(v)
  local A, C, U, n = {}, {}, {}, 0
  for i = 1, v.n do
    local at, cost, w = v.A[i], v.C[i], v.U[i]
    local part = cdiv(w, JOINPARTS)
    local p = fdiv(at, part)
    for j = n, 1, -1 do
      if fdiv(A[j], part) ~= p then break end
      if U[j] == w then
        cost = cost + C[j]
        if cost > MAX then cost = MAX end
        table.remove(A, j)
        table.remove(C, j)
        table.remove(U, j)
        n = n - 1
        break
      end
    end
    n = n + 1
    A[n], C[n], U[n] = at, cost, w
  end
  v.A, v.C, v.U, v.n = A, C, U, n
end

function chargeWindow(v, cost)
  local now, w = v.now, v.l.span
  if v.expires <= now or v.n == 0 then
    local since = now
    if v.expires > now and v.since > now then since = v.since end
    return lean(v, w, 1, cost, now, now, cost, since, '')
  end
  if v.lean and v.W == w and v.sum + cost <= MAX then
    local body = sub(v.s, v.at)
    if v.last == now then
      return lean(v, w, v.n, v.sum + cost, v.first, now, v.tail + cost, v.since, body)
    elseif v.n < MAXUSES then
      local entry = v.tail == 1 and fmt('%d;', now - v.last) or fmt('%d:%d;', now - v.last, v.tail)
      return lean(v, w, v.n + 1, v.sum + cost, v.first, now, cost, v.since, body .. entry)
    end
  end
  spread(v)
  local A, C, U, n = {}, {}, {}, 0
  for i = 1, v.n do
    if v.A[i] + v.U[i] > now then
      n = n + 1
      A[n], C[n], U[n] = v.A[i], v.C[i], v.U[i]
    end
  end
  local i = n
  while i > 0 and A[i] == now and U[i] ~= w do i = i - 1 end
  if i > 0 and A[i] == now then
    C[i] = C[i] + cost
    if C[i] > MAX then C[i] = MAX end
  else
    n = n + 1
    A[n], C[n], U[n] = now, cost, w
  end
  v.A, v.C, v.U, v.n, v.dirty, v.text = A, C, U, n, true, nil
  if n > MAXUSES then join(v) end
  if v.n > MAXUSES then
    for j = 1, v.n do
      if v.U[j] > w then w = v.U[j] end
    end
    for j = 1, v.n do v.U[j] = w end
    join(v)
  end
  v.last = v.A[v.n]
  count(v)
  windowExpiry(v)
end

function encodeUses(v)
  local A, C, U, n = v.A, v.C, v.U, v.n
  local sum, one = C[n], true
  for i = 1, n - 1 do
    sum, one = sum + C[i], one and U[i] == U[n] and sum <= MAX
  end
  if one and sum <= MAX then
    local out = {fmt('w%d,%d,%d,%d,%d,%d,%d;', U[n], n, sum, A[1], A[n] - A[1], C[n], A[1] - v.since)}
    for i = 1, n - 1 do
      out[i + 1] = C[i] == 1 and fmt('%d;', A[i + 1] - A[i]) or fmt('%d:%d;', A[i + 1] - A[i], C[i])
    end
    return concat(out)
  end
  local out, last = {fmt('u%d,%d,%d', v.since, v.expires, n)}, 0
  for i = 1, n do
    out[i + 1] = fmt('|%d:%d:%d', A[i] - last, C[i], U[i])
    last = A[i]
  end
  return concat(out)
end

-- answerWindow is what is answered of a lean window instead of its row: what is used, when the last use is over, and when
-- there will be room for cost, if it was refused and can pass.
function answerWindow(v, cost, ok)
  local room, size = 0, v.l.size
  if not ok and cost <= size then
    local at, pos, left, first = v.last, v.at, v.sum, v.first
    while v.at <= #v.s do
      local d, c, e = next(v)
      left = left - c
      if left <= size - cost then
        at = first
        break
      end
      first, v.at = first + d, e
    end
    v.at, room = pos, at + v.W
  end
  return fmt('v%d,%d,%d', v.used, v.last + v.W, room)
end
