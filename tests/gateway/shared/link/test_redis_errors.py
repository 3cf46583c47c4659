"""What a server says is either no (refused), or not now (unavailable), whatever its version and whoever reads it."""

from __future__ import annotations

import pytest
from redis import exceptions

from gateway.shared.link.redis_errors import RedisRefused, RedisUnavailable, translated
from tests.fakes.scripted_redis import ScriptedRedis
from tests.gateway.shared.link.links import linked


@pytest.mark.parametrize(
    ("says", "code"),
    [
        (b"-OOM command not allowed when used memory > 'maxmemory'.", "OOM"),
        (b"-ERR Error running script (call to f_1): @user_script:1: @user_script: 1: -OOM command not allowed", "OOM"),
        (b"-NOAUTH Authentication required.", "NOAUTH"),
        (b"-WRONGPASS invalid username-password pair or user is disabled.", "WRONGPASS"),
        (b"-NOPERM this user has no permissions to run the 'get' command", "NOPERM"),
        (b"-MOVED 3999 127.0.0.1:6381", "MOVED"),
        (b"-WRONGTYPE Operation against a key holding the wrong kind of value", "WRONGTYPE"),
        (b"-ERR Error running script (call to f_1): @user_script:3: WRONGTYPE Operation against a key", "WRONGTYPE"),
        (b"-MISCONF Redis is configured to save RDB snapshots", "MISCONF"),
        (b"-CROSSSLOT Keys in request don't hash to the same slot", "CROSSSLOT"),
        (b"-ERR syntax error", "ERR"),
    ],
)
async def test_a_refusal_has_its_code(says: bytes, code: str) -> None:
    """The first word of what Redis says, also from within a script."""
    async with ScriptedRedis(says + b"\r\n") as server, linked(server.url) as link:
        with pytest.raises(RedisRefused) as caught:
            await link.run(("GET", "k"))
        (in_pipeline,) = await link.run_all([("GET", "k")])

    assert caught.value.code == code
    assert str(caught.value).startswith(code)
    assert in_pipeline.code == code


@pytest.mark.parametrize(
    ("says", "elsewhere"),
    [
        (b"-LOADING Redis is loading the dataset in memory", False),
        (b"-BUSY Redis is busy running a script.", False),
        (b"-TRYAGAIN Multiple keys request during rehashing of slot", False),
        (b"-READONLY You can't write against a read only replica.", True),
        (b"-ERR Error running script (call to f_1): @user_script:1: @user_script: 1: -READONLY You can't", True),
        (b"-MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.", True),
        (b"-CLUSTERDOWN The cluster is down", True),
        (b"-ERR max number of clients reached", True),
    ],
)
async def test_not_now_is_unavailable(says: bytes, elsewhere: bool) -> None:
    """It passes by itself; for some of it, by going to another server."""
    async with ScriptedRedis(says + b"\r\n") as server, linked(server.url) as link:
        with pytest.raises(RedisUnavailable) as caught:
            await link.run(("SET", "k", 1))
        with pytest.raises(RedisUnavailable):
            await link.run_all([("SET", "k", 1), ("GET", "k")])

    assert caught.value.elsewhere is elsewhere


async def test_a_node_of_a_cluster_is_told_as_such() -> None:
    """MOVED says little to who does not know clusters."""
    async with ScriptedRedis(b"-MOVED 3999 127.0.0.1:6381\r\n") as server, linked(server.url) as link:
        with pytest.raises(RedisRefused, match=r"^MOVED 3999 127.0.0.1:6381 \(.* redis\+cluster://"):
            await link.run(("GET", "k"))


async def test_what_was_sent_is_not_in_the_text() -> None:
    """Redis quotes a command that it does not know, with its arguments."""
    says = b"-ERR unknown command 'GTE', with args beginning with: 'sesame' 'door'\r\n"
    async with ScriptedRedis(says) as server, linked(server.url) as link:
        with pytest.raises(RedisRefused) as caught:
            await link.run(("GTE", "sesame", "door"))

    assert str(caught.value) == "ERR unknown command 'GTE'"


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (TimeoutError(), "no answer in time"),
        (exceptions.TimeoutError("Timeout reading from socket"), "no answer in time"),
        (ConnectionResetError(104, "Connection reset by peer"), "[Errno 104] Connection reset by peer"),
        (exceptions.ConnectionError(), "ConnectionError"),
        (exceptions.InvalidResponse("x" * 1000), "x" * 200),
    ],
)
def test_a_broken_connection_is_unavailable(error: Exception, text: str) -> None:
    """With a text that says something, and not too much."""
    assert isinstance(translated(error), RedisUnavailable)
    assert str(translated(error)) == text
