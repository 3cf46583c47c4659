"""The generator: traces like the public ones, the same for the same seed."""

from __future__ import annotations

from itertools import pairwise

import pytest

from loadtest.replay import dialogues, generator, mooncake
from loadtest.replay.load_level import bound, shared_lru
from loadtest.replay.trace import Trace
from tests.loadtest.replay import public_traces


@pytest.mark.parametrize("kind", generator.KINDS)
def test_a_seed_is_a_trace(kind: str) -> None:
    """Exactly as many requests, in order of time, the same for the same seed; only agents wait for answers."""
    trace = generator.generate(kind, requests=300, seed=4)
    assert trace == generator.generate(kind, requests=300, seed=4)
    assert trace != generator.generate(kind, requests=300, seed=5)
    assert (trace.name, trace.block_tokens, trace.requests) == (kind, 512, 300)
    assert trace.is_open == (kind != "agentic")
    assert all(sooner.begins_s <= later.begins_s for sooner, later in pairwise(trace.sessions))


@pytest.mark.parametrize("kind", generator.KINDS)
def test_equal_blocks_mean_equal_prefixes(kind: str) -> None:
    """Every block has one before it, always the same; and every full block of a prompt has an id."""
    parents: dict[int, int] = {}
    for session in generator.generate(kind, requests=300, seed=4).sessions:
        for turn in session.turns:
            assert len(turn.blocks) == turn.prompt_tokens // 512
            assert turn.output_tokens >= 1
            for parent, block in pairwise([-1, *turn.blocks]):
                assert parents.setdefault(block, parent) == parent


def test_an_unknown_kind_is_told_what_there_is() -> None:
    """So is a trace of nothing."""
    with pytest.raises(ValueError, match="agentic, conversation, documents, hot_prefix, hot_shift, mixed"):
        generator.generate("chat", requests=10, seed=1)
    with pytest.raises(ValueError, match="at least 1 request, not 0"):
        generator.generate("mixed", requests=0, seed=1)
    for kind in generator.KINDS:
        assert generator.generate(kind, requests=1, seed=1).requests == 1


def means(trace: Trace) -> tuple[float, float]:
    turns = [turn for session in trace.sessions for turn in session.turns]
    return sum(t.prompt_tokens for t in turns) / len(turns), sum(t.output_tokens for t in turns) / len(turns)


@pytest.mark.parametrize(
    ("kind", "file"),
    [
        ("conversation", "conversation.jsonl"),
        ("documents", "synthetic.jsonl"),
        ("agentic", "agentic_sessions.jsonl"),
    ],
)
def test_generated_traces_are_like_their_public_models(kind: str, file: str) -> None:
    """Lengths, what can be found at all, and what a cache of 4,800 blocks finds of it."""
    model = (dialogues if kind == "agentic" else mooncake).read(public_traces.path(file))
    trace = generator.generate(kind, requests=model.requests, seed=1)
    assert means(trace) == pytest.approx(means(model), rel=0.2)
    assert bound(trace) == pytest.approx(bound(model), abs=0.04)
    assert shared_lru(trace, 4800) == pytest.approx(shared_lru(model, 4800), abs=0.08)
