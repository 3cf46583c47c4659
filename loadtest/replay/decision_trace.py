"""What a gateway's decision log holds, as a trace: an operator's own traffic, to try another strategy on.

The format is docs/routing.md's, a superset of Mooncake's. Read here are ``timestamp`` (ms), ``input_length``,
``output_length``, ``block_tokens``, ``hash_ids``, ``session`` and ``model``. A log that was rotated began in
``<file>.1``, which is read too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from statistics import median_low
from typing import Annotated

import msgspec

from loadtest.replay import session_keys
from loadtest.replay.block_chains import BlockChains
from loadtest.replay.mooncake import Milliseconds, OutputTokens, PromptTokens
from loadtest.replay.trace import Session, Trace, Turn
from loadtest.replay.trace_lines import TraceLines

_UNKNOWN_OUTPUT = 128  # tokens, in a log in which no answer told its length


class _Line(msgspec.Struct, gc=False):
    timestamp: Milliseconds
    input_length: PromptTokens | None
    block_tokens: Annotated[int, msgspec.Meta(ge=1, le=2**20)]
    hash_ids: list[int]
    output_length: OutputTokens | None = None
    session: int | str | None = None
    model: str | None = None

    @property
    def is_known(self) -> bool:
        return self.input_length is not None


def read(path: Path, *, limit: int | None = None) -> Trace:
    """The requests of a log, each at its own time: nobody waits for anybody. ``limit``: lines to read.

    Requests whose prompt was not known are left out. An answer of unknown length gets the median of the others'. Of
    blocks of several sizes the most frequent one counts. Requests that named no session get an inferred one. A line
    that a killed process did not end, or that is just being written, is left out. The trace's notes tell how many.
    Raises :class:`~loadtest.replay.trace_lines.TraceError`.
    """
    files = _files(path)
    lines = sorted(islice(_lines(files), limit), key=lambda line: line.timestamp)
    known = [line for line in lines if line.is_known]
    sizes = Counter(line.block_tokens for line in known)
    if not sizes:
        raise files[-1].wrong("no request whose prompt was known")
    block_tokens = sizes.most_common(1)[0][0]
    used = [line for line in known if line.block_tokens == block_tokens]
    notes = _notes(
        {
            f"of {len(lines)} requests had a prompt that was not known: left out": len(lines) - len(known),
            f"of {len(lines)} had blocks of another size than {block_tokens} tokens: left out": len(known) - len(used),
            f"answers of unknown length: taken for {_usual(used)} tokens": sum(
                line.output_length is None for line in used
            ),
            "requests without a session: inferred": sum(line.session is None for line in used),
            "lines that were not written to their end: left out": sum(file.torn for file in files),
            "models, taken for one": len({line.model for line in used}) - 1 and len({line.model for line in used}),
        }
    )
    return Trace(path.stem, block_tokens, _sessions(used), notes)


def _files(path: Path) -> list[TraceLines[_Line]]:
    older = path.with_name(path.name + ".1")
    return [TraceLines(file, _Line, skip_torn=True) for file in (older, path) if file == path or file.exists()]


def _lines(files: Sequence[TraceLines[_Line]]) -> Iterator[_Line]:
    for lines in files:
        for line in lines:
            if len(line.hash_ids) * line.block_tokens > (line.input_length or 0):
                raise lines.wrong(f"{len(line.hash_ids)} hash_ids are more than {line.input_length} tokens have")
            yield line


def _notes(counts: dict[str, int]) -> tuple[str, ...]:
    return tuple(f"{count} {what}" for what, count in counts.items() if count)


def _sessions(lines: Sequence[_Line]) -> list[Session]:
    chains = BlockChains()
    usual = _usual(lines)
    turns = []
    for line in lines:
        output = usual if line.output_length is None else line.output_length
        turns.append(Turn(line.input_length or 1, max(1, output), chains.numbered(line.hash_ids)))
    inferred = session_keys.inferred([turn.blocks for turn in turns])
    return [
        Session(key if line.session is None else f"session-{line.session}", _since(lines[0], line), (turn,))
        for line, turn, key in zip(lines, turns, inferred, strict=True)
    ]


def _usual(lines: Sequence[_Line]) -> int:
    """Tokens of an answer: the median of those that are known."""
    known = [line.output_length for line in lines if line.output_length is not None]
    return median_low(known) if known else _UNKNOWN_OUTPUT


def _since(first: _Line, line: _Line) -> float:
    return (line.timestamp - first.timestamp) / 1000
