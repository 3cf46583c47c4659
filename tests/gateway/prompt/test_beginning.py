"""What is certain of a prompt's beginning, whatever follows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.prompt.beginning import certain_tokens, common_beginning
from gateway.prompt.tokenizer import Tokenizer, load_tokenizer
from gateway.prompt.tokenizer_files import TokenizerFiles

PIECES = [
    "word",
    " ",
    "\n",
    "12",
    ".",
    "...",
    "é",
    "世界",
    "<|im_end|>",
    "<|",
    "it's",
    "\t",
    "a" * 40,
    " " * 40,
    "👋🏽",
]
texts = st.lists(st.sampled_from(PIECES), min_size=12, max_size=60).map("".join)


@given(st.text(), st.text(), st.text())
def test_what_both_begin_with(start: str, one: str, other: str) -> None:
    """And no character more."""
    common = common_beginning(start + one, start + other)

    assert common.startswith(start)
    assert (start + one).startswith(common)
    assert (start + other).startswith(common)
    longer = (start + one)[: len(common) + 1]
    assert longer == common or not (start + other).startswith(longer)


@pytest.fixture(scope="module")
def tokenizers(small_folder: Path, model_folder: Callable[[str], Path]) -> list[Tokenizer]:
    folders = [small_folder, model_folder("qwen-3")]
    return [load_tokenizer(TokenizerFiles.read(folder)) for folder in folders]


@given(texts, texts)
def test_certain_tokens_begin_every_longer_text(tokenizers: list[Tokenizer], text: str, rest: str) -> None:
    """Words cut in the middle, runs of white space, numbers, scripts, special tokens: no token that goes otherwise."""
    for tokenizer in tokenizers:
        for special in (False, True):

            def encode(whole: str, tokenizer: Tokenizer = tokenizer, special: bool = special) -> bytes:
                return tokenizer.encode(whole, add_special_tokens=special)

            assert encode(text + rest).startswith(certain_tokens(text, encode))


def test_little_is_lost(tokenizers: list[Tokenizer]) -> None:
    """About a dozen tokens; of a very short text all."""
    text = "<|im_start|>system\nYou are a helpful assistant, and brief.<|im_end|>\n" * 20
    for tokenizer in tokenizers:
        certain = certain_tokens(text, lambda whole, t=tokenizer: t.encode(whole, add_special_tokens=False))  # type: ignore[misc]
        everything = tokenizer.encode(text, add_special_tokens=False)

        assert 0 < len(everything) - len(certain) < 4 * 33
    assert certain_tokens("Hello", lambda whole: whole.encode()) == b""
