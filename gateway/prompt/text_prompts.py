"""Prompts that are texts or token ids, in OpenAI's four forms."""

from __future__ import annotations

from gateway.prompt.unrendered import Unrendered

Prompt = str | tuple[int, ...]


def read_prompts(raw: object) -> tuple[Prompt, ...]:
    """Text, list of texts, token ids, list of lists of token ids. Raises :class:`Unrendered`."""
    if isinstance(raw, str):
        return (raw,)
    if not isinstance(raw, list) or not raw:
        raise Unrendered("prompt")
    if isinstance(raw[0], int):
        return (_checked_ids(raw),)
    return tuple(prompt if isinstance(prompt, str) else _checked_ids(prompt) for prompt in raw)


def _checked_ids(ids: object) -> tuple[int, ...]:
    if not isinstance(ids, list) or set(map(type, ids)) != {int}:
        raise Unrendered("prompt")
    if min(ids) < 0 or max(ids) >= 1 << 32:
        raise Unrendered("prompt")
    return tuple(ids)
