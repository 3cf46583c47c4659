"""The words that say why a prompt is not known."""

from __future__ import annotations

import re
from pathlib import Path

_ROOT = Path(__file__).parents[3]
_MEDIA = {"image", "audio", "video", "file", "prompt_embeds"}  # what a part of a message may hold
_GIVEN = re.compile(r'(?:Unrendered\(|unknown\(|_fallback\(\w+, |EncodedPrompt\.of\([^"\n]+, |_unrendered ?= ?)"(\w+)"')


def test_each_is_explained() -> None:
    """In the README: they are in receipts, in the access log and in metrics."""
    sources = [path for room in ("prompt", "router") for path in (_ROOT / "gateway" / room).glob("*.py")]
    words = {word for path in sources for word in _GIVEN.findall(path.read_text())} | _MEDIA
    explained = set(re.findall(r"`(\w+)`", (_ROOT / "README.md").read_text()))

    assert {"no_tokenizer", "no_template", "remote_tokenize", "route", "too_long", "messages"} <= words
    assert words <= explained
