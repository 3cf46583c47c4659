"""What traces are like: recorded ones, and generated ones beside them.

    python -m benchmarks.traces conversation.jsonl:conversation synthetic.jsonl:documents sessions.jsonl:agentic mixed

Each word is a file, the name of a generated trace, or both, ``FILE:NAME``: then as many requests are generated as the
file has; by a name alone 4,000. Prints a row of a Markdown table for each.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

from loadtest.replay.generator import generate
from loadtest.replay.load_level import bound, shared_lru
from loadtest.replay.trace import Trace
from loadtest.replay.trace_source import TraceSource

REQUESTS = 4000
CACHES = (4800, 16_000)  # blocks: eight replicas of 307,000 or a million tokens
COLUMNS = (
    "trace",
    "requests",
    "prompt tokens p5/p50/p90/p99",
    "output p50/p99",
    "sharing requests",
    "since then p50/p90",
    "bound",
    *(f"{blocks} blocks" for blocks in CACHES),
)


def row(trace: Trace, name: str) -> list[str]:
    turns = [turn for session in trace.sessions for turn in session.turns]
    prompts = sorted(turn.prompt_tokens for turn in turns)
    outputs = sorted(turn.output_tokens for turn in turns)
    distances = sorted(reuse(trace))
    return [
        name,
        f"{trace.requests:,}",
        "/".join(f"{quantile(prompts, part):,}" for part in (0.05, 0.5, 0.9, 0.99)),
        "/".join(f"{quantile(outputs, part):,}" for part in (0.5, 0.99)),
        f"{len(distances) / trace.requests:.2f}",
        "/".join(f"{quantile(distances, part):,}" for part in (0.5, 0.9)),
        f"{bound(trace):.3f}",
        *(f"{shared_lru(trace, blocks):.3f}" for blocks in CACHES),
    ]


def reuse(trace: Trace) -> Iterator[int]:
    """For each request that shares more than one block with an earlier one: how many requests ago it was."""
    seen: dict[int, int] = {}
    number = 0
    for session in trace.sessions:
        for turn in session.turns:
            number += 1
            known = [block for block in turn.blocks if block in seen]
            if len(known) > 1:
                yield number - seen[known[-1]]
            seen.update(dict.fromkeys(turn.blocks, number))


def quantile(ordered: Sequence[int], part: float) -> int:
    return ordered[int(part * len(ordered))] if ordered else 0


def rows(word: str) -> Iterator[list[str]]:
    file, _, name = word.rpartition(":")
    recorded = TraceSource.of(file or name).recorded
    if recorded is not None:
        yield row(recorded, f"{recorded.name}, public")
    if file or recorded is None:
        yield row(generate(name, requests=recorded.requests if recorded else REQUESTS, seed=1), f"`{name}`")


def main(words: Sequence[str]) -> None:
    lines = [list(COLUMNS), ["---"] * len(COLUMNS), *(cells for word in words for cells in rows(word))]
    print("\n".join(f"| {' | '.join(cells)} |" for cells in lines))


if __name__ == "__main__":
    main(sys.argv[1:])
