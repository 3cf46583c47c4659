"""The fenced ``console`` blocks of a page, each with the remark before it that says where it is tried, or why not."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

PAGE = Path(__file__).parent.parent.parent / "docs" / "operate.md"
_PIECE = re.compile(
    r"^## (?P<part>.+)$|^### (?P<section>.+)$|^(?P<remark><!-- .* -->)\n```console\n|^```console\n", re.MULTILINE
)
_TRIED = re.compile(r"<!-- tried on (\S+) -->")
_NOT_RUN = re.compile(r"<!-- not run: (.+) -->")


class Step(NamedTuple):
    """A command, and what one must see of it; "": it just has to succeed."""

    command: str
    shows: str

    def is_seen(self, output: str) -> bool:
        """Whether the lines are in it, in their order. ``...`` is anything, and so is the width of a gap."""
        rest = iter(" ".join(line.split()) for line in output.splitlines())
        return all(any(_matches(line, told) for told in rest) for line in self.shows.splitlines() if line != "...")


class Block(NamedTuple):
    """``machine``: where it is tried; ``reason``: why it is not."""

    section: str
    line: int
    steps: list[Step]
    machine: str = ""
    reason: str = ""


def blocks(page: str) -> Iterator[Block]:
    """All. Raises ``ValueError`` for one without a remark."""
    section = ""
    for piece in _PIECE.finditer(page):
        section = piece["part"] or piece["section"] or section
        if piece["part"] or piece["section"]:
            continue
        line = page.count("\n", 0, piece.start()) + 1
        body = page[piece.end() : page.index("```", piece.end())]
        remark = piece["remark"] or ""
        if tried := _TRIED.fullmatch(remark):
            yield Block(section, line, list(_steps(body)), machine=tried[1])
        elif not_run := _NOT_RUN.fullmatch(remark):
            yield Block(section, line, list(_steps(body)), reason=not_run[1])
        else:
            raise ValueError(f"line {line}: a console block that does not say whether it is tried")


def _steps(body: str) -> Iterator[Step]:
    for part in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
        command, _, shows = part.partition("\n")
        yield Step(command, shows)


def _matches(line: str, told: str) -> bool:
    pieces = map(re.escape, " ".join(line.split()).split("..."))
    return re.fullmatch(".*".join(pieces), told) is not None
