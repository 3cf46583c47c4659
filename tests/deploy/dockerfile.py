"""A Dockerfile, read: its stages and their instructions; and which files its context has."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]


class Instruction(NamedTuple):
    """``words``: of the JSON form, or else the line's own."""

    name: str
    text: str

    @property
    def words(self) -> list[str]:
        if self.text.startswith("["):
            return list(map(str, json.loads(self.text)))
        return self.text.split()


class Stage(NamedTuple):
    """From one FROM to the next."""

    base: str
    instructions: tuple[Instruction, ...]

    def all(self, name: str) -> list[Instruction]:
        return [instruction for instruction in self.instructions if instruction.name == name]

    def one(self, name: str) -> Instruction:
        (instruction,) = self.all(name)
        return instruction

    def pairs(self, name: str) -> dict[str, str]:
        """Of ENV or LABEL: ``key=value``, the value quoted or bare."""
        text = " ".join(instruction.text for instruction in self.all(name))
        return {key: quoted or bare for key, quoted, bare in re.findall(r'([\w.]+)=(?:"([^"]*)"|(\S*))', text)}

    @property
    def health_check(self) -> list[str]:
        """The command."""
        _, _, command = self.one("HEALTHCHECK").text.partition("CMD ")
        return Instruction("CMD", command).words


def stages(text: str) -> list[Stage]:
    """Those of a Dockerfile. Comments and what stands before the first FROM are left out."""
    found: list[tuple[str, list[Instruction]]] = []
    for line in _logical_lines(text):
        name, _, rest = line.partition(" ")
        if name == "FROM":
            found.append((rest, []))
        elif found:
            found[-1][1].append(Instruction(name, rest.strip()))
    return [Stage(base, tuple(instructions)) for base, instructions in found]


def context(ignore: str, files: Iterable[str]) -> list[str]:
    """Those of ``files`` that are sent to the builder. The last pattern that fits a file or a folder of it decides."""
    patterns = [line for line in ignore.splitlines() if line and not line.startswith("#")]
    return [file for file in files if not _is_ignored(file, patterns)]


def project_files() -> list[str]:
    """Every file of the work tree that is there, but not what git ignores."""
    command = ["git", "-c", f"safe.directory={ROOT}", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines()
    return [file for file in listed if (ROOT / file).is_file()]


def _logical_lines(text: str) -> list[str]:
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    return re.sub(r"\\\n\s*", "", "\n".join(lines)).splitlines()


def _is_ignored(file: str, patterns: Sequence[str]) -> bool:
    parts = file.split("/")
    paths = ["/".join(parts[:depth]) for depth in range(1, len(parts) + 1)]
    ignored = False
    for pattern in patterns:
        if any(_fits(path, pattern.removeprefix("!")) for path in paths):
            ignored = not pattern.startswith("!")
    return ignored


def _fits(path: str, pattern: str) -> bool:
    """``*`` stays within a folder's name; ``**/`` is any number of folders."""
    if pattern.startswith("**/"):
        parts = path.split("/")
        return any(_fits("/".join(parts[start:]), pattern[3:]) for start in range(len(parts)))
    parts, wanted = path.split("/"), pattern.split("/")
    return len(parts) == len(wanted) and all(map(fnmatchcase, parts, wanted))
