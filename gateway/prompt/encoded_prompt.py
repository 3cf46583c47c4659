"""EncodedPrompt: a request's prompt as token ids, or why there are none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from gateway.prompt.blocks import TOKEN_BYTES


@dataclass(slots=True)
class EncodedPrompt:
    """``tokens``: uint32, little-endian, ``count`` of them. Not known: none, and ``reason`` says why, in a
    word.

    Only with ``remote_tokenize`` are there both: a replica tokenized, at the price of a call.
    """

    tokens: bytes
    count: int
    reason: str = ""

    @classmethod
    def of(cls, tokens: bytes, reason: str = "") -> Self:
        return cls(tokens, len(tokens) // TOKEN_BYTES, reason)

    @classmethod
    def unknown(cls, reason: str) -> Self:
        return cls(b"", 0, reason)
