-- The registry of a namespace, where it changed. KEYS: the registry. ARGV: its version as the caller knows it.
-- Answers false, or its fields and values.
if (redis.call('HGET', KEYS[1], 'v') or '') == ARGV[1] then
  return false
end
return redis.call('HGETALL', KEYS[1])
