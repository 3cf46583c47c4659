-- Tell readers of a replica's entries: the epoch they are in, and what is known of its feed.
--
-- KEYS: the registry, the lock. ARGV: the process, the replica, the epoch, the details, a version for the registry that
-- was never used, the registry's life in s.
-- Answers the epoch that was registered before ("0": none), or false where the process has lost the lock or a newer
-- epoch is registered.
local registry, lock = KEYS[1], KEYS[2]
local process, replica, epoch, details, version, life_s = unpack(ARGV)
local field = 'r:' .. replica

if redis.call('GET', lock) ~= process then
  return false
end
local entry = redis.call('HGET', registry, field)
local before = entry and string.match(entry, '^(%d+) ') or '0'
if tonumber(before) >= 2 ^ 53 then
  before = '0' -- garbage: see acquire.lua
end
if tonumber(before) > tonumber(epoch) then
  return false
end
local value = epoch .. ' ' .. details
if value ~= entry then
  redis.call('HSET', registry, field, value, 'v', version)
end
redis.call('EXPIRE', registry, life_s)
return before
