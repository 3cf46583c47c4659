"""Dialogues, a closed loop: one JSON object a line, one session each; a turn comes after the answer before it.

    {"session": 7, "turns": [{"input_length": 17590, "output_length": 185, "think": 9.0, "hash_ids": [0, 1, ...]}]}

``think``: seconds between the end of the last answer and the turn. ``hash_ids``: the prompt's full blocks of 512 tokens
(a partly full one after them is left out). This is not a published format, but what coding agents' published dialogues
(github.com/callanjfox/kv-cache-tester, blocks of 64 tokens) look like in blocks of 512.
"""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Annotated

import msgspec

from loadtest.replay.block_chains import BlockChains
from loadtest.replay.mooncake import BLOCK_TOKENS, OutputTokens, PromptTokens
from loadtest.replay.trace import Session, Trace, Turn
from loadtest.replay.trace_lines import TraceLines

_GAP_S = 1.0  # between the beginnings of sessions; the file says nothing of them, and load levels set them anew


class _Turn(msgspec.Struct, gc=False):
    input_length: PromptTokens
    output_length: OutputTokens
    hash_ids: list[int]
    think: Annotated[float, msgspec.Meta(ge=0, le=1e9)] = 0.0


class _Line(msgspec.Struct):
    turns: Annotated[list[_Turn], msgspec.Meta(min_length=1)]
    session: int | str | None = None


def read(path: Path, *, limit: int | None = None, block_tokens: int = BLOCK_TOKENS) -> Trace:
    """The trace in a file, or in its first ``limit`` sessions, which begin one second after the other.

    Raises :class:`~loadtest.replay.trace_lines.TraceError`.
    """
    chains = BlockChains()
    sessions: list[Session] = []
    lines = TraceLines(path, _Line)
    for line in islice(lines, limit):
        turns = [_turn(item, lines, chains, block_tokens) for item in line.turns]
        key = f"line-{lines.number}" if line.session is None else str(line.session)
        sessions.append(Session(key, len(sessions) * _GAP_S, turns))
    if not sessions:
        raise lines.wrong("no session")
    return Trace(path.stem, block_tokens, sessions)


def _turn(item: _Turn, lines: TraceLines[_Line], chains: BlockChains, block_tokens: int) -> Turn:
    full = item.input_length // block_tokens
    if not full <= len(item.hash_ids) <= full + 1:
        raise lines.wrong(f"{len(item.hash_ids)} hash_ids do not fit {item.input_length} tokens in {block_tokens}s")
    return Turn(item.input_length, max(1, item.output_length), chains.numbered(item.hash_ids[:full]), item.think)
