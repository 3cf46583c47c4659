"""Script: what Redis runs in one piece, and a call of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha1
from pathlib import Path
from typing import NamedTuple, Self

_FOLDER = Path(__file__).parent / "lua"

#: A word of a command.
Word = str | bytes | int | float


@dataclass(frozen=True, slots=True)
class Script:
    """``sha`` is the name Redis knows it by."""

    name: str
    text: str = field(repr=False)
    sha: str

    @classmethod
    def of(cls, name: str, text: str) -> Self:
        return cls(name, text, sha1(text.encode()).hexdigest())  # noqa: S324 - Redis names scripts by their SHA-1

    @classmethod
    def load(cls, name: str) -> Self:
        """The script ``lua/{name}.lua``."""
        return cls.of(name, (_FOLDER / f"{name}.lua").read_text())


class ScriptCall(NamedTuple):
    """``keys`` lie in one slot: in a cluster they say where the script runs."""

    script: Script
    keys: Sequence[str | bytes]
    args: Sequence[Word] = ()


#: A script's call, or a command's words.
Command = tuple[Word, ...] | ScriptCall


def words(command: Command) -> tuple[Word, ...]:
    """A command as it is sent."""
    if isinstance(command, ScriptCall):
        return ("EVALSHA", command.script.sha, len(command.keys), *command.keys, *command.args)
    return command


def words_with_text(call: ScriptCall) -> tuple[Word, ...]:
    """The same for a Redis that does not know the script; from then on it does."""
    return ("EVAL", call.script.text, len(call.keys), *call.keys, *call.args)
