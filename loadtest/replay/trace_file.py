"""TraceFile: reads a file of any of the three formats; its first line tells which."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec

from loadtest.replay import decision_trace, dialogues, mooncake
from loadtest.replay.trace import Trace
from loadtest.replay.trace_lines import TraceLines

_FORMATS = (
    "a trace has lines of Mooncake's form (timestamp, input_length, output_length, hash_ids), a decision log's "
    "(block_tokens too) or dialogues (turns)"
)


def read(path: Path, *, limit: int | None = None) -> Trace:
    """The trace in a file, or in its first ``limit`` lines.

    Raises :class:`~loadtest.replay.trace_lines.TraceError` for a file that is none, and ``OSError`` where it cannot be
    read.
    """
    return _reader(path)(path, limit=limit)


def _reader(path: Path) -> Callable[..., Trace]:
    lines = TraceLines(path, dict[str, msgspec.Raw])
    first = next(iter(lines), None)
    if first is None:
        raise lines.wrong(f"nothing here; {_FORMATS}")
    if "turns" in first:
        return dialogues.read
    if "block_tokens" in first:
        return decision_trace.read
    if "hash_ids" in first:
        return mooncake.read
    raise lines.wrong(f"of no known format; {_FORMATS}")
