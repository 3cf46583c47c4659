-- Agree on the fleet's hash secret: of those that were ever shared, the oldest.
-- KEYS: secret (HASH: value in hex, created in ms by Redis's clock).
-- ARGV: the caller's value in hex; when it was created ('': it was never shared); life of the key in s.
-- Answer: value and created of the secret to use.
local secret = KEYS[1]
local mine, my_created = ARGV[1], tonumber(ARGV[2])
local held = redis.call('HMGET', secret, 'value', 'created')
local value, created = held[1], tonumber(held[2] or '')

local readable = value and created and #value % 2 == 0 and string.match(value, '^%x+$')
local older = readable and my_created and (my_created < created or (my_created == created and mine < value))
if not readable or older then
  local time = redis.call('TIME')
  value, created = mine, my_created or time[1] * 1000 + math.floor(time[2] / 1000)
  redis.call('HSET', secret, 'value', value, 'created', string.format('%.0f', created))
end
redis.call('EXPIRE', secret, ARGV[3])
return {value, created}
