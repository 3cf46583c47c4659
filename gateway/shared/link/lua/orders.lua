-- Bring together what Redis and the caller know, and read the orders if they are not those that the caller saw last.
-- KEYS: orders (HASH: "kind/target" -> "version id content", version: the highest, token: changes with every change).
-- ARGV: the token that the caller saw ('': none); the highest version it knows; life of the key in s; then field and
-- value of each order that Redis did not have when the caller looked.
-- Answer: token, version; then, if the token is another one than the caller's, fields and values.
local orders = KEYS[1]
local seen, known, time = ARGV[1], tonumber(ARGV[2]), redis.call('TIME')

local function number(text) -- of so many digits that it can be counted on from there; else it is garbage
  return text and #text < 15 and tonumber(text) or nil
end

local function rank(value)
  local version, id = string.match(value or '', '^(%d+) (%S*) ')
  return number(version) or -1, id or ''
end

local function follows(id, other) -- Lua's own comparison depends on the server's locale
  for at = 1, math.min(#id, #other) do
    local a, b = string.byte(id, at), string.byte(other, at)
    if a ~= b then return a > b end
  end
  return #id > #other
end

local written = {}
for at = 4, #ARGV, 2 do
  local field, value = ARGV[at], ARGV[at + 1]
  local version, id = rank(value)
  local held_version, held_id = rank(redis.call('HGET', orders, field))
  if version > held_version or (version == held_version and follows(id, held_id)) then
    redis.call('HSET', orders, field, value)
    written[#written + 1] = field .. value
  end
end

if #written > 0 then
  redis.call('HSET', orders, 'token', redis.sha1hex(time[1] .. time[2] .. table.concat(written)))
end
local version = number(string.match(redis.call('HGET', orders, 'version') or '', '^%d+$')) or 0
if known > version then
  version = known
  redis.call('HSET', orders, 'version', string.format('%.0f', version))
end
redis.call('EXPIRE', orders, ARGV[3])

local token = redis.call('HGET', orders, 'token') or ''
local answer = {token, version}
if token ~= seen then
  local all = redis.call('HGETALL', orders)
  for at = 1, #all, 2 do
    if all[at] ~= 'token' and all[at] ~= 'version' then
      answer[#answer + 1] = all[at]
      answer[#answer + 1] = all[at + 1]
    end
  end
end
return answer
