-- Strike a replica off the registry that nobody writes any more and of which nothing is left.
--
-- KEYS: the registry, the replica's lock, its L0 set. ARGV: the replica, the epoch as the caller knows it, a version for
-- the registry that was never used. Answers whether it was struck off.
local registry, lock, blocks = KEYS[1], KEYS[2], KEYS[3]
local replica, epoch, version = unpack(ARGV)
local field = 'r:' .. replica

local entry = redis.call('HGET', registry, field)
if not entry or string.match(entry, '^(%d+) ') ~= epoch then
  return 0
end
if redis.call('EXISTS', lock, blocks) > 0 then
  return 0
end
redis.call('HDEL', registry, field)
redis.call('HSET', registry, 'v', version)
return 1
