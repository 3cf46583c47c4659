"""Mooncake's format: one JSON object a line, one request each, nobody waits for anybody.

    {"timestamp": 27000, "input_length": 6758, "output_length": 500, "hash_ids": [0, 1, 2, ...]}

``timestamp`` is in ms; ``hash_ids`` are the prompt's blocks of 512 tokens, the last of which may be only partly full:
such a block is never found again whole, and is left out. Published with "Mooncake: Trading More Storage for Less
Computation" (FAST'25) at github.com/kvcache-ai/Mooncake, FAST25-release/traces.
"""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Annotated

import msgspec

from loadtest.replay import session_keys
from loadtest.replay.block_chains import BlockChains
from loadtest.replay.trace import Session, Trace, Turn
from loadtest.replay.trace_lines import TraceLines

BLOCK_TOKENS = 512

Milliseconds = Annotated[float, msgspec.Meta(ge=0, le=1e15)]
PromptTokens = Annotated[int, msgspec.Meta(ge=1, le=2**24)]  # more is no prompt, and would take ages to simulate
OutputTokens = Annotated[int, msgspec.Meta(ge=0, le=2**24)]


class _Line(msgspec.Struct, gc=False):
    timestamp: Milliseconds
    input_length: PromptTokens
    output_length: OutputTokens
    hash_ids: list[int]


def read(path: Path, *, limit: int | None = None, block_tokens: int = BLOCK_TOKENS) -> Trace:
    """The trace in a file, or in its first ``limit`` lines.

    Lines may stand in any order of time; the first request begins at 0 s. An output of 0 tokens counts as 1. Sessions
    are inferred (:mod:`loadtest.replay.session_keys`). Raises :class:`~loadtest.replay.trace_lines.TraceError`.
    """
    chains = BlockChains()
    timed: list[tuple[float, Turn]] = []
    lines = TraceLines(path, _Line)
    for line in islice(lines, limit):
        full = line.input_length // block_tokens
        if not full <= len(line.hash_ids) <= full + 1:
            raise lines.wrong(f"{len(line.hash_ids)} hash_ids do not fit {line.input_length} tokens in {block_tokens}s")
        blocks = chains.numbered(line.hash_ids[:full])
        timed.append((line.timestamp, Turn(line.input_length, max(1, line.output_length), blocks)))
    if not timed:
        raise lines.wrong("no request")
    return open_trace(path.stem, block_tokens, timed)


def open_trace(name: str, block_tokens: int, timed: list[tuple[float, Turn]], *, notes: tuple[str, ...] = ()) -> Trace:
    """A trace of single requests (at least one) at their times in ms; sorts them."""
    timed.sort(key=lambda item: item[0])
    start = timed[0][0]
    keys = session_keys.inferred([turn.blocks for _, turn in timed])
    sessions = [Session(key, (at - start) / 1000, (turn,)) for (at, turn), key in zip(timed, keys, strict=True)]
    return Trace(name, block_tokens, sessions, notes)
