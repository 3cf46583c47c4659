"""The beginning of a prompt whose rest is not known: how much of it is certain. Knows no template and no tokenizer.

Two renderings that differ only where the unknown begins agree on what comes before it. The tokens of a text's end
depend on what follows, so those are left out: credit is lost by a few tokens, and never given for tokens that the
engine does not compute.
"""

from __future__ import annotations

from collections.abc import Callable

from gateway.prompt.blocks import TOKEN_BYTES

# How far what follows a text reaches back into its tokens: a word, or a run of white space, and then some.
_UNCERTAIN_CHARS = 32


def common_beginning(one: str, other: str) -> str:
    """The longest text that both begin with."""
    return one[: _common_length(one, other)]


def certain_tokens(text: str, encode: Callable[[str], bytes]) -> bytes:
    """Token ids that every prompt beginning with ``text`` begins with, as ``encode`` gives them.

    The last characters are cut off and what is left is encoded again: what both have in common did not depend on
    them, and depends even less on what follows them. The last of those tokens goes too: the next word may join it.
    """
    if len(text) <= _UNCERTAIN_CHARS:
        return b""
    whole, cut = encode(text), encode(text[:-_UNCERTAIN_CHARS])
    tokens = _common_length(whole, cut) // TOKEN_BYTES
    return whole[: max(0, tokens - 1) * TOKEN_BYTES]


def _common_length(one: str | bytes, other: str | bytes) -> int:
    """By halving: comparing slices is far quicker than comparing one by one."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
