-- Which server keeps a stored response.
--
-- KEYS: what is known of the response. Answers the server's id, or nothing.
return redis.call('GET', KEYS[1])
