"""EncodedPrompt: a request's prompt as token ids, or its beginning, or why there are none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from gateway.prompt.blocks import TOKEN_BYTES


@dataclass(slots=True)
class EncodedPrompt:
    """``tokens``: uint32, little-endian, ``count`` of them. Not known: none, and ``reason`` says why, in a
    word.

    There are both with ``remote_tokenize`` (a replica tokenized, at the price of a call), and where the prompt is not
    ``complete``: then the tokens are only its beginning, and ``reason`` says why.
    """

    tokens: bytes
    count: int
    reason: str = ""
    complete: bool = True

    @classmethod
    def of(cls, tokens: bytes, reason: str = "") -> Self:
        return cls(tokens, len(tokens) // TOKEN_BYTES, reason)

    @classmethod
    def beginning(cls, tokens: bytes, reason: str) -> Self:
        """Unknown if there are none."""
        return cls(tokens, len(tokens) // TOKEN_BYTES, reason, complete=not tokens)

    @classmethod
    def unknown(cls, reason: str) -> Self:
        return cls(b"", 0, reason)
