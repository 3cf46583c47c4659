"""Asks a server for what a trace says."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadtest.live.player import Player, cached_tokens_of
from loadtest.replay.trace import Session, Trace, Turn
from loadtest.replica import Fault
from tests.loadtest.replica.running import MODEL, Running, running

SESSIONS = (
    Session("first", 0.0, (Turn(16 * 4 + 5, 3, range(4)), Turn(16 * 6, 2, range(6)))),
    Session("second", 0.0, (Turn(16 * 2 + 1, 1, (0, 1), think_s=0.3),)),
)


async def played(server: Running, sessions: Sequence[Session] = SESSIONS) -> Player:
    player = Player(server.replica.url, MODEL, server.replica.folder.word_ids)
    await player.play(Trace("t", 16, sessions))
    return player


async def test_asks_for_all_of_it_and_notes_what_came() -> None:
    """Prompts as long as the trace says, answers too; a turn after the answer before it; what was cached."""
    async with running() as server:
        player = await played(server)
        bodies = [json.loads(request.body) for request in server.replica.requests]
        generated = server.replica.scheduler.stats.generated_tokens

    asked = {len(body["prompt"]): (body["max_tokens"], body["session_id"]) for body in bodies}
    by_length = {one.turn.prompt_tokens: one for one in player.answered}
    first, second, other = by_length[69], by_length[96], by_length[33]
    assert asked == {69: (3, "first"), 96: (2, "first"), 33: (1, "second")}
    assert generated == 6
    assert (first.cached_tokens, second.cached_tokens, other.cached_tokens) == (0, 64, 32)
    assert first.arrived_s < first.first_token_s <= first.finished_s <= second.arrived_s
    assert other.arrived_s >= 0.3
    assert player.broken == []


async def test_a_session_goes_on_after_a_failure() -> None:
    """What failed is noted with its reason, and nothing of it counts as answered."""
    async with running() as server:
        server.replica.faults.add(Fault(status=503))
        server.replica.faults.add(Fault(die_after_chunks=1))
        player = await played(server, [Session("s", 0.0, (*SESSIONS[0].turns, *SESSIONS[1].turns))])

    assert [broken.session for broken in player.broken] == ["s", "s"]
    assert "503" in player.broken[0].why
    assert [one.turn.prompt_tokens for one in player.answered] == [33]


@pytest.mark.parametrize(
    ("stream", "why"),
    [
        (b"", "early"),
        (b'data: {"usage": {"prompt_tokens_details": {"cached_tokens": 3}}}\n\n', "early"),
        (b"data: [DONE]\n\n", "no chunk"),
        (b'data: {"choices": []}\n\ndata: [DONE]\n\n', "cached tokens"),
        (b'data: {"usage": {"prompt_tokens_details": null}}\n\ndata: [DONE]\n\n', "cached tokens"),
        (b"data: {\n\ndata: [DONE]\n\n", "property name"),
    ],
)
def test_an_answer_that_does_not_tell_is_none(stream: bytes, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        cached_tokens_of(stream)


@given(st.lists(st.binary(max_size=40), max_size=4))
def test_any_bytes_are_read_or_refused(events: list[bytes]) -> None:
    stream = b"".join(b"data: " + event + b"\n\n" for event in [*events, b"[DONE]"])
    with contextlib.suppress(ValueError):
        assert isinstance(cached_tokens_of(stream), int)
