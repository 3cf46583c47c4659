-- Give an order: it gets the next version. The same id again changes nothing.
-- KEYS: orders (HASH: see orders.lua), the order of this id.
-- ARGV: what it is about; its id; its content; the highest version the caller knows; life of the orders and of the id in
-- s; then field and head ("version id ") of each order that may be forgotten.
-- Answer: the order as it was given, "version id content".
local orders, by_id = KEYS[1], KEYS[2]
local given = redis.call('GET', by_id)
if given then
  return given
end

local highest = string.match(redis.call('HGET', orders, 'version') or '', '^%d+$')
local is_version = highest and #highest < 15 -- else it is garbage: see orders.lua
local version = math.max(is_version and tonumber(highest) or 0, tonumber(ARGV[4])) + 1
given = string.format('%.0f %s %s', version, ARGV[2], ARGV[3])
for at = 7, #ARGV, 2 do
  local head = ARGV[at + 1]
  if string.sub(redis.call('HGET', orders, ARGV[at]) or '', 1, #head) == head then
    redis.call('HDEL', orders, ARGV[at])
  end
end
local time = redis.call('TIME')
local token = redis.sha1hex(table.concat({time[1], time[2], ARGV[1], given}, ' '))
redis.call('HSET', orders, 'version', string.format('%.0f', version), 'token', token, ARGV[1], given)
redis.call('EXPIRE', orders, ARGV[5])
redis.call('SET', by_id, given, 'EX', ARGV[6])
return given
