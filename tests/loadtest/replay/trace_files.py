"""Trace files for tests."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import strategies as st

from loadtest.replay.trace import Trace
from loadtest.replay.trace_lines import TraceError

#: What a trace file may hold by mistake: bytes, JSON of another kind, and nearly the right thing.
ANYTHING = st.one_of(
    st.binary(max_size=200),
    st.lists(
        st.dictionaries(
            st.sampled_from(
                ["timestamp", "input_length", "output_length", "hash_ids", "turns", "block_tokens", "session", "think"]
            ),
            st.recursive(
                st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
                lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
                max_leaves=5,
            )
            | st.integers(0, 1100)
            | st.lists(st.integers(0, 3), max_size=3),
        ),
        max_size=3,
    ).map(lambda lines: "\n".join(json.dumps(line) for line in lines).encode()),
)


def written(path: Path, lines: Iterable[object]) -> Path:
    """A file with one line of JSON for each; a string is written as it is."""
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    path.write_text("".join(f"{text}\n" for text in texts))
    return path


def read_or_refused(read: Callable[[Path], Trace], data: bytes) -> Trace | None:
    """What a reader makes of a file of these bytes; None where it says why that is no trace."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "a.jsonl"
        file.write_bytes(data)
        try:
            return read(file)
        except TraceError:
            return None
