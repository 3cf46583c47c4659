-- Give the writer lock of a replica back, and forget the replica where it has left the fleet.
--
-- KEYS: the lock, the registry. ARGV: the process, the replica, the epoch, "forget" or "keep", a version for the
-- registry that was never used. Answers whether the lock was ours.
local lock, registry = KEYS[1], KEYS[2]
local process, replica, epoch, what, version = unpack(ARGV)
local field = 'r:' .. replica

if redis.call('GET', lock) ~= process then
  return 0
end
if what == 'forget' then
  local entry = redis.call('HGET', registry, field)
  if entry and string.match(entry, '^(%d+) ') == epoch then
    redis.call('HDEL', registry, field)
    redis.call('HSET', registry, 'v', version)
  end
end
redis.call('DEL', lock)
return 1
