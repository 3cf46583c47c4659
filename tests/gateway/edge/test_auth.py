from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.edge.auth import ApiKeys
from gateway.errors import Unauthorized


@pytest.mark.parametrize("value", [b"Bearer one", b"bearer two", b"BEARER  two "])
def test_any_of_the_keys_opens(value: bytes) -> None:
    """The scheme is compared without case, the key exactly."""
    ApiKeys(["one", "two"]).check([(b"Authorization", value)])


@pytest.mark.parametrize(
    "value", [b"", b"Bearer", b"Bearer ", b"one", b"Basic one", b"Bearer On", b"Bearer one2", b"Bearer \xff"]
)
def test_anything_else_does_not(value: bytes) -> None:
    """No key, half a key and another scheme are refused alike."""
    with pytest.raises(Unauthorized):
        ApiKeys(["one", "two"]).check([(b"authorization", value)])


def test_without_keys_everybody_may_ask() -> None:
    """No configuration, no check."""
    keys = ApiKeys([])
    keys.check([])
    assert not keys


@given(st.binary())
def test_no_header_makes_it_fail_otherwise(value: bytes) -> None:
    """Odd bytes are a refusal, not an error."""
    with pytest.raises(Unauthorized):
        ApiKeys(["a long enough key that chance does not find"]).check([(b"authorization", value)])
