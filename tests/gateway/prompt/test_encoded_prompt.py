"""An encoded prompt is tokens, or a reason."""

from __future__ import annotations

from gateway.prompt.blocks import pack_tokens
from gateway.prompt.encoded_prompt import EncodedPrompt


def test_tokens_are_counted_and_a_reason_has_none() -> None:
    """Four bytes a token; unknown is nothing with a word."""
    assert EncodedPrompt.of(pack_tokens([1, 2, 3])) == EncodedPrompt(pack_tokens([1, 2, 3]), 3, "")
    assert EncodedPrompt.unknown("image") == EncodedPrompt(b"", 0, "image")


def test_a_beginning_is_both() -> None:
    """Tokens, and why there are no more; without tokens it is unknown."""
    assert EncodedPrompt.beginning(pack_tokens([1]), "image") == EncodedPrompt(pack_tokens([1]), 1, "image", False)
    assert EncodedPrompt.beginning(b"", "image") == EncodedPrompt.unknown("image")
