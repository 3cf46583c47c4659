"""Usage: the token counts an answer carries."""

from __future__ import annotations

from typing import NamedTuple


class Usage(NamedTuple):
    """vLLM's ``usage`` object. ``cached_tokens`` is ``None`` where the server does not report it."""

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int | None
