"""TraceSource: where the requests of runs come from, a file or the generator; another sample for every seed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from loadtest.replay import generator, trace_file
from loadtest.replay.trace import Trace


@dataclass(frozen=True, slots=True)
class TraceSource:
    """``recorded`` is what the file held; ``None``: the generator makes traces of this name."""

    name: str
    recorded: Trace | None = None

    @classmethod
    def of(cls, text: str) -> TraceSource:
        """A kind of generated trace by its name, or the file at a path, read whole.

        Raises ``ValueError`` for what is neither, or no trace.
        """
        if text in generator.KINDS:
            return cls(text)
        path = Path(text)
        if not path.is_file():
            raise ValueError(f"{text!r} is no file, and not one of the generated traces {', '.join(generator.KINDS)}")
        return cls(path.stem, trace_file.read(path))

    def sample(self, requests: int, seed: int) -> Trace:
        """At most so many requests; the same for the same seed. A file has no more than it has."""
        if self.recorded is None:
            return generator.generate(self.name, requests=requests, seed=seed)
        return self.recorded.sample(requests, seed)
