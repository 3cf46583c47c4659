-- Keep the writer lock of a replica, and keep its entries alive.
--
-- KEYS: the lock, the registry, the wish for a handover, the replica's sets. ARGV: the process, the replica, the epoch,
-- the lock's life in ms, the life of the registry in s, that of the sets in s. An empty epoch: one that is not registered yet.
-- Answers {whether the epoch is still ours to write, whether a handover is wanted, the number of members of each set}.
local lock, registry, wanted = KEYS[1], KEYS[2], KEYS[3]
local process, replica, epoch, lock_ms, life_s, sets_s = unpack(ARGV)

local holder = redis.call('GET', lock)
local entry = redis.call('HGET', registry, 'r:' .. replica)
local registered = entry and string.match(entry, '^(%d+) ') or '0'
if (holder and holder ~= process) or (epoch ~= '' and registered ~= epoch) then
  return {0, 0}
end
if holder then
  redis.call('PEXPIRE', lock, lock_ms) -- which a server that is out of memory does, too
else
  redis.call('SET', lock, process, 'PX', lock_ms)
end
redis.call('EXPIRE', registry, life_s)
local answer = {1, redis.call('EXISTS', wanted)}
for at = 4, #KEYS do
  redis.call('EXPIRE', KEYS[at], sets_s)
  answer[#answer + 1] = redis.call('SCARD', KEYS[at])
end
return answer
