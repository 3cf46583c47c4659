"""Who may ask, by the key in the request's headers."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.client_keys import ClientKey, parse_client_keys
from gateway.edge.auth import ApiKeys, Client
from gateway.edge.fields import Header
from gateway.errors import Unauthorized


def made(name: str, key: str, receipt: bool | None = None) -> ClientKey:
    return ClientKey(name, hashlib.sha256(key.encode()).digest(), receipt)


KEYS = made("a", "one"), made("b", "two", True), made("c", "three", False)


@pytest.mark.parametrize("value", [b"Bearer one", b"bearer one", b"BEARER  one ", b" Bearer one"])
def test_a_bearer_token_opens(value: bytes) -> None:
    """The scheme is compared without case, the key exactly; again and again."""
    keys = ApiKeys(KEYS)
    for _ in range(3):
        assert keys.check([(b"Host", b"x"), (b"AUTHORIZATION", value)]) == Client("a", receipt=False)


def test_so_does_the_header_of_anthropics_clients() -> None:
    """Alone, or beside a bearer token that is the same."""
    keys = ApiKeys(KEYS)
    assert keys.check([(b"X-Api-Key", b"two")]) == Client("b", receipt=True)
    assert keys.check([(b"x-api-key", b"two"), (b"authorization", b"Bearer two")]) == Client("b", receipt=True)


@pytest.mark.parametrize("usual", [False, True])
def test_a_key_may_say_what_its_owner_sees(usual: bool) -> None:
    """Else it is as for everybody."""
    keys = ApiKeys(KEYS, receipt=usual)
    shown = {key: keys.check([(b"x-api-key", key)]) for key in (b"one", b"two", b"three")}
    assert [client.receipt for client in shown.values() if client] == [usual, True, False]


@pytest.mark.parametrize(
    ("headers", "says"),
    [
        ([], "did not provide"),
        ([(b"x-api-keys", b"one"), (b"authorisation-", b"Bearer one")], "did not provide"),
        ([(b"authorization", b"")], "must be sent as"),
        ([(b"authorization", b"Bearer")], "must be sent as"),
        ([(b"authorization", b"Bearer ")], "must be sent as"),
        ([(b"authorization", b"one")], "must be sent as"),
        ([(b"authorization", b"Basic one")], "must be sent as"),
        ([(b"authorization", b"Bearer\tone")], "must be sent as"),
        ([(b"x-api-key", b" ")], "must be sent as"),
        ([(b"x-api-key", b"one"), (b"authorization", b"Basic b25l")], "must be sent as"),
        ([(b"authorization", b"Bearer on")], "Incorrect"),
        ([(b"authorization", b"Bearer one2")], "Incorrect"),
        ([(b"authorization", b"Bearer ONE")], "Incorrect"),
        ([(b"authorization", b"Bearer one two")], "Incorrect"),
        ([(b"authorization", b"Bearer \xff")], "Incorrect"),
        ([(b"authorization", b"Bearer one"), (b"authorization", b"Bearer two")], "differ"),
        ([(b"authorization", b"Bearer one"), (b"x-api-key", b"two")], "differ"),
        ([(b"x-api-key", b"wrong"), (b"authorization", b"Bearer one")], "differ"),
    ],
)
def test_anything_else_does_not(headers: list[Header], says: str) -> None:
    """401 that says what is wrong and names the scheme, and does not repeat the key."""
    keys = ApiKeys(KEYS)
    for _ in range(2):
        with pytest.raises(Unauthorized, match=says) as refused:
            keys.check(headers)
    assert refused.value.code == "invalid_api_key"
    assert refused.value.headers() == [(b"www-authenticate", b"Bearer")]


def test_without_keys_everybody_may_ask() -> None:
    """No configuration, no check, nobody's name."""
    keys = ApiKeys()
    assert keys.check([]) is None
    assert keys.check([(b"authorization", b"Bearer whatever")]) is None
    assert not keys


def test_a_key_may_be_required_while_there_is_none() -> None:
    """As with an empty file: nobody may ask."""
    keys = ApiKeys(required=True)
    assert keys
    with pytest.raises(Unauthorized):
        keys.check([(b"x-api-key", b"one")])
    with pytest.raises(Unauthorized):
        keys.check([])


def test_keys_are_replaced_at_once() -> None:
    """A new one opens, an old one does not any more, however often it was used."""
    keys = ApiKeys(KEYS)
    old, new = [(b"x-api-key", b"one")], [(b"x-api-key", b"four")]
    keys.check(old)
    keys.replace([made("d", "four")])

    assert keys.check(new) == Client("d", receipt=False)
    assert keys.names == ["d"]
    with pytest.raises(Unauthorized):
        keys.check(old)
    keys.replace([])
    with pytest.raises(Unauthorized):
        keys.check(new)


@given(st.binary(), st.sampled_from([b"authorization", b"x-api-key"]))
def test_no_header_makes_it_fail_otherwise(value: bytes, name: bytes) -> None:
    """Odd bytes are a refusal, not an error."""
    with pytest.raises(Unauthorized):
        ApiKeys(parse_client_keys("a-long-enough-key-that-chance-does-not-find")).check([(name, value)])
