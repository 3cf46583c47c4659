"""Tier arithmetic: prefixes from token 0 become disjoint tokens."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.kv.tiers import TierTokens

lengths = st.none() | st.integers(0, 100_000)


@pytest.mark.parametrize(
    ("tokens", "usable", "split"),
    [
        (TierTokens(), 0, (0, 0, 0)),
        (TierTokens(640), 640, (640, 0, 0)),
        (TierTokens(640, 512, 512), 640, (640, 0, 0)),
        (TierTokens(64, 512, 512), 512, (64, 448, 0)),
        (TierTokens(64, 256, 1024), 1024, (64, 192, 768)),
        (TierTokens(512, 256, 1024), 1024, (512, 0, 512)),
    ],
)
def test_examples(tokens: TierTokens, usable: int, split: tuple[int, int, int]) -> None:
    """Usable is the longest prefix; each token is taken from the best tier that has it."""
    assert (tokens.usable, tokens.split()) == (usable, split)


@given(st.builds(TierTokens, lengths, lengths, lengths))
def test_the_parts_are_the_whole_where_storage_extends_host_memory(tokens: TierTokens) -> None:
    """a2 covers a1 by definition: then the split sums to what is usable, and no part is negative."""
    known = tokens._replace(a2=None if tokens.a2 is None else max(tokens.a2, tokens.a1 or 0))

    assert sum(known.split()) == known.usable
    assert min(known.split()) >= 0
