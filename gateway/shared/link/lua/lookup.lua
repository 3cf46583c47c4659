-- How long a prefix each replica holds.
--
-- KEYS: the registry; the L0 set of each replica; the L1 set of those that have one; the L2 sets of the namespace.
-- ARGV: the registry's version as the caller knows it; one character a replica, "1" where it has an L1 set; the
--       number of L2 sets; then of each chain its block size in tokens and its hashes, 8 bytes each.
-- Answers {"stale", the registry's fields and values}, or of each replica three numbers of tokens: the prefix in
-- L0, in L1 alone, and over L1 and L2 together. -1: nothing is known.
local registry, version, has_l1 = KEYS[1], ARGV[1], ARGV[2]
local call, sub, min = redis.call, string.sub, math.min
local SENTINEL = '@' -- a member of every set that is there

if (call('HGET', registry, 'v') or '') ~= version then
  return {'stale', call('HGETALL', registry)}
end

local replicas = #has_l1
local l2_first = #KEYS - tonumber(ARGV[3]) + 1
local chains = {}
for at = 4, #ARGV, 2 do
  chains[#chains + 1] = {size = tonumber(ARGV[at]), blob = ARGV[at + 1], blocks = #ARGV[at + 1] / 8}
end

local function block(chain, at)
  return sub(chain.blob, at * 8 - 7, at * 8)
end

-- L0: a block is evicted before its parent is, so a bisection is exact. The first block is held.
local function gallop(set, chain)
  local function held(at)
    return call('SISMEMBER', set, block(chain, at)) == 1
  end
  local low, step, high = 1, 1, chain.blocks + 1
  while low + step <= chain.blocks do
    if not held(low + step) then
      high = low + step
      break
    end
    low, step = low + step, step * 2
  end
  while high - low > 1 do
    local middle = math.floor((low + high) / 2)
    if held(middle) then low = middle else high = middle end
  end
  return low
end

-- L1 and L2 evict in any order: every block is looked at, in growing pieces, in the first set and then in the others.
local function walk(sets, chain)
  local first, size = 1, 8
  while first <= chain.blocks do
    local last = min(first + size - 1, chain.blocks)
    local members = {}
    for at = first, last do
      members[#members + 1] = block(chain, at)
    end
    local missing = members
    local held = {}
    for _, set in ipairs(sets) do
      local answers = call('SMISMEMBER', set, unpack(missing))
      local left = {}
      for at, answer in ipairs(answers) do
        if answer == 1 then held[missing[at]] = true else left[#left + 1] = missing[at] end
      end
      missing = left
      if #missing == 0 then break end
    end
    if #missing > 0 then
      for at, member in ipairs(members) do
        if not held[member] then return first + at - 2 end
      end
    end
    first, size = last + 1, min(size * 2, 256)
  end
  return chain.blocks
end

local function longest_walk(sets)
  local tokens = 0
  for _, chain in ipairs(chains) do
    tokens = math.max(tokens, walk(sets, chain) * chain.size)
  end
  return tokens
end

-- Most replicas hold nothing of a prompt, which one command tells, and whether the set is there at all.
local beginnings = {SENTINEL}
for number, chain in ipairs(chains) do
  beginnings[number + 1] = block(chain, 1)
end

local function longest_gallop(set)
  local held = call('SMISMEMBER', set, unpack(beginnings))
  if held[1] == 0 then
    return -1
  end
  local tokens = 0
  for number, chain in ipairs(chains) do
    if held[number + 1] == 1 then
      tokens = math.max(tokens, gallop(set, chain) * chain.size)
    end
  end
  return tokens
end

local storage = {}
for at = l2_first, #KEYS do
  storage[#storage + 1] = KEYS[at]
end

local answer = {}
local next_l1 = replicas + 2
for replica = 1, replicas do
  local tokens = longest_gallop(KEYS[replica + 1])
  local host, both = -1, -1
  local sets = {}
  if sub(has_l1, replica, replica) == '1' then
    sets[1] = KEYS[next_l1]
    next_l1 = next_l1 + 1
    host = longest_walk(sets)
  end
  if #storage > 0 then
    for _, set in ipairs(storage) do
      sets[#sets + 1] = set
    end
    both = longest_walk(sets)
  end
  answer[#answer + 1], answer[#answer + 2], answer[#answer + 3] = tokens, host, both
end
return answer
