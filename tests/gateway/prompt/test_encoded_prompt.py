"""An encoded prompt is tokens, or a reason."""

from __future__ import annotations

from gateway.prompt.blocks import pack_tokens
from gateway.prompt.encoded_prompt import EncodedPrompt


def test_tokens_are_counted_and_a_reason_has_none() -> None:
    """Four bytes a token; unknown is nothing with a word."""
    assert EncodedPrompt.of(pack_tokens([1, 2, 3])) == EncodedPrompt(pack_tokens([1, 2, 3]), 3, "")
    assert EncodedPrompt.unknown("image") == EncodedPrompt(b"", 0, "image")
