"""A decision's views: headers and log fields say the same."""

from __future__ import annotations

import pytest

from gateway.kv.tiers import TierTokens
from tests.gateway.examples import a_decision


@pytest.mark.parametrize(
    ("confirmed", "matched"),
    [
        (TierTokens(), "prompt=1925"),
        (TierTokens(0), "prompt=1925,l0=0"),
        (TierTokens(640), "prompt=1925,l0=640"),
        (TierTokens(640, 512), "prompt=1925,l0=640,l1=0"),
        (TierTokens(640, 512, 1664), "prompt=1925,l0=640,l1=0,l2=1024"),
        (TierTokens(None, 512), "prompt=1925,l1=512"),
    ],
)
def test_matched_tokens_are_disjoint_and_unknown_tiers_left_out(confirmed: TierTokens, matched: str) -> None:
    """Their sum is what the replica spares; nobody made up a 0."""
    assert a_decision(confirmed=confirmed).matched == matched


def test_an_estimate_is_not_what_events_tell() -> None:
    """It has a word of its own, last, beside the L2 that is told of."""
    told, untold = TierTokens(640, 512, 1664), TierTokens(640)

    assert a_decision(confirmed=told, l2_estimate=256).matched == "prompt=1925,l0=640,l1=0,l2=1024,l2_estimate=256"
    assert a_decision(confirmed=untold, l2_estimate=1152).matched == "prompt=1925,l0=640,l2_estimate=1152"


def test_the_receipt() -> None:
    """Four headers, as documented."""
    assert dict(a_decision(prompt_reason="remote_tokenize").headers()) == {
        b"x-prefixway-replica": b"a",
        b"x-prefixway-strategy": b"kv_aware",
        b"x-prefixway-reason": b"prefix, remote_tokenize",
        b"x-prefixway-matched": b"prompt=1925,l0=640",
    }


def test_an_unknown_prompt_matches_nothing_that_could_be_told() -> None:
    """No tokens: no matched header."""
    receipt = dict(a_decision(prompt_tokens=0, prompt_reason="image").headers())

    assert b"x-prefixway-matched" not in receipt
    assert receipt[b"x-prefixway-reason"] == b"prefix, image"


def test_a_known_beginning_is_not_called_the_prompt() -> None:
    """More tokens follow than are counted there."""
    decision = a_decision(knows_beginning_only=True, prompt_reason="image")

    assert decision.matched == "known=1925,l0=640"
    assert decision.reasons == "prefix, image"


def test_an_odd_id_cannot_break_a_header() -> None:
    """Ids come from configuration; what no header can carry is replaced."""
    assert dict(a_decision(replica_id="größe-世").headers())[b"x-prefixway-replica"] == "größe-?".encode("latin-1")
