-- A beat of one process: write its record, drop who is silent, read what the caller does not know yet.
-- KEYS: beats (HASH: process id -> "ms digest"), records (HASH: process id -> record).
-- ARGV: process id; digest of its record; the record; ms of silence after which a process is gone; life of the keys in
-- s; then process id and digest of each record that the caller has.
-- Answer: ms since the caller's last beat (-1: none is known); then process id, digest and record ('': the caller has
-- it) of every other process.
local beats, records = KEYS[1], KEYS[2]
local me, my_digest, dead_after = ARGV[1], ARGV[2], tonumber(ARGV[4])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local function parsed(beat)
  local ms, digest = string.match(beat or '', '^(%d+) (%S+)$')
  return tonumber(ms), digest
end

local before, digest_before = parsed(redis.call('HGET', beats, me))
redis.call('HSET', beats, me, string.format('%.0f %s', now, my_digest))
if digest_before ~= my_digest or redis.call('HEXISTS', records, me) == 0 then
  redis.call('HSET', records, me, ARGV[3])
end
redis.call('EXPIRE', beats, ARGV[5])
redis.call('EXPIRE', records, ARGV[5])

local known = {}
for at = 6, #ARGV, 2 do
  known[ARGV[at]] = ARGV[at + 1]
end

local answer = {before and now - before or -1}
local all = redis.call('HGETALL', beats)
for at = 1, #all, 2 do
  local id = all[at]
  local ms, digest = parsed(all[at + 1])
  if not ms or math.abs(now - ms) > dead_after then -- the other way round: the clock was set back
    redis.call('HDEL', beats, id)
    redis.call('HDEL', records, id)
  elseif id ~= me then
    answer[#answer + 1] = id
    answer[#answer + 1] = digest
    answer[#answer + 1] = known[id] ~= digest and redis.call('HGET', records, id) or ''
  end
end
return answer
