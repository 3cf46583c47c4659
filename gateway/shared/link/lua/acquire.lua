-- Take the writer lock of a replica, or keep it, and get a new epoch.
--
-- KEYS: the lock, the namespace's last epoch, the registry. ARGV: the process, the replica, the lock's life in ms, the
-- life of the last epoch in s. Answers the epoch, or false where another process has the lock.
--
-- Epochs are microseconds of the server's clock, and always more than the last one and the one in force: a counter
-- would start anew when a server loses its data, and two epochs could have one name.
local lock, epochs, registry = KEYS[1], KEYS[2], KEYS[3]
local process, replica, lock_ms, life_s = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

if not redis.call('SET', lock, process, 'NX', 'PX', lock_ms) then
  if redis.call('GET', lock) ~= process then
    return false
  end
  redis.call('PEXPIRE', lock, lock_ms)
end

local function number(text) -- garbage is none; from 2^53 on there is no next one
  local value = tonumber(text or '')
  return value and value < 2 ^ 53 and value or 0
end

local last = number(redis.call('GET', epochs))
local in_force = number(string.match(redis.call('HGET', registry, 'r:' .. replica) or '', '^(%d+) '))
local now = redis.call('TIME')
local epoch = math.max(tonumber(now[1]) * 1000000 + tonumber(now[2]), last + 1, in_force + 1)
local text = string.format('%.0f', epoch)
redis.call('SET', epochs, text, 'EX', life_s)
return text
