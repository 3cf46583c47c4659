"""A script is sent by its name, or whole, as words."""

from __future__ import annotations

from gateway.shared.link.script import Script, ScriptCall, words, words_with_text
from tests.fakes.redis_servers import RedisServer


def test_a_script_has_the_name_that_redis_gives_it(redis_server: RedisServer) -> None:
    """Else it would be sent whole every time."""
    script = Script.of("one", "return 1")

    assert redis_server.client().script_load(script.text) == script.sha


def test_scripts_lie_beside_the_code() -> None:
    """Each by its file's name."""
    script = Script.load("lookup")

    assert script.name == "lookup"
    assert "redis.call" in script.text
    assert script.text not in repr(script)


def test_a_call_becomes_words() -> None:
    """By name, or with its text; a plain command is words already."""
    call = ScriptCall(Script.of("one", "return 1"), ["a", b"b"], [3, b"\x00"])

    assert words(call) == ("EVALSHA", call.script.sha, 2, "a", b"b", 3, b"\x00")
    assert words_with_text(call) == ("EVAL", "return 1", 2, "a", b"b", 3, b"\x00")
    assert words(("GET", "a")) == ("GET", "a")
