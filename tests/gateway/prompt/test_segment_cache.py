"""The segment cache gives the ids of the plain tokenizer, whatever the text."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st

from gateway.prompt.segment_cache import SegmentCache, SegmentCuts
from gateway.prompt.tokenizer import reference_ids

GPT4_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def definition(**fields: Any) -> dict[str, Any]:
    """As much of a tokenizer.json as tells where to cut."""
    split = {"type": "Split", "pattern": {"Regex": GPT4_SPLIT}, "behavior": "Isolated"}
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False}
    added = [{"content": "<|end|>", "normalized": False}, {"content": "<|end|>>", "normalized": False}]
    return {
        "added_tokens": added,
        "normalizer": {"type": "NFC"},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, byte_level]},
        **fields,
    }


def pieces(text: str, **fields: Any) -> list[str]:
    return list(SegmentCuts(definition(**fields), long_chars=8, chunk_chars=4).split(text))


def test_cuts_before_added_tokens_the_longest_first() -> None:
    """The token leads its segment; a longer token that starts at the same place wins."""
    assert pieces("a<|end|>b<|end|>>c") == ["a", "<|end|>b", "<|end|>>c"]


def test_cuts_long_segments_between_newline_and_letter() -> None:
    """Never before a slash, a space, another newline or a letter that is not ASCII."""
    assert pieces("abcd\nefgh\n/x\ny\n y\n\nz\nüz") == ["abcd\n", "efgh\n/x\n", "y\n y\n\n", "z\nüz"]
    assert pieces("ab\ncdef") == ["ab\ncdef"]


@pytest.mark.parametrize(
    "fields",
    [
        {"normalizer": {"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "Lowercase"}]}},
        {"pre_tokenizer": {"type": "Metaspace"}},
        {"pre_tokenizer": None},
        {"pre_tokenizer": {"type": "Split", "pattern": {"Regex": "."}}},
        {"pre_tokenizer": {"type": "Split", "pattern": {"String": " "}}},
        {"added_tokens": [{"content": "a\nb", "normalized": False}]},
    ],
)
def test_unknown_tokenizers_are_cut_at_added_tokens_only(fields: dict[str, Any]) -> None:
    """What is not on the list may join across a newline."""
    assert pieces("abcdefgh\nijkl\nmnop", **fields) == ["abcdefgh\nijkl\nmnop"]


@pytest.mark.parametrize("flag", ["lstrip", "rstrip", "single_word"])
def test_added_tokens_that_take_their_surroundings_forbid_all_cuts(flag: str) -> None:
    """They swallow white space across the cut."""
    added = [{"content": "<|end|>", "normalized": False, flag: True}]

    assert pieces("abcdefgh\na<|end|>b", added_tokens=added) == ["abcdefgh\na<|end|>b"]


@given(st.text("ab\n </|end>.\u0301", max_size=60))
def test_pieces_are_the_text(text: str) -> None:
    """Nothing lost, nothing doubled."""
    assert text == "".join(pieces(text))


def test_encodes_each_piece_once_and_stays_in_bounds() -> None:
    """Least recently used pieces go first."""
    encoded: list[str] = []

    def encode(piece: str) -> bytes:
        encoded.append(piece)
        return piece.encode()

    cache = SegmentCache(encode, SegmentCuts(definition()), max_bytes=450)
    for text in ("a<|end|>b", "a<|end|>c", "a", "<|end|>b"):
        assert text.encode() == cache.encode(text)

    assert encoded == ["a", "<|end|>b", "<|end|>c", "<|end|>b"]
    assert cache.bytes <= 450


def hard_texts(tokens: list[str], count: int) -> Iterator[str]:
    """Text around every kind of cut."""
    dice = random.Random(1)
    bits = [
        "word",
        " Word",
        "\n",
        "\r\n",
        "\n\n",
        " ",
        "/",
        ".",
        "!\n",
        "e\u0301",
        "\u0301",
        "12",
        "你好",
        "😀",
        "it's",
        "<|",
        "|>",
    ]
    for _ in range(count):
        yield "".join(dice.choices(bits + dice.choices(tokens, k=3), k=dice.randrange(4, 60)))


@pytest.mark.parametrize("name", ["qwen-3", "qwen-3.5", "deepseek-r1-distill-llama-8b", "deepseek-v3.1", "minimax"])
def test_equals_the_plain_tokenizer(name: str, model_folder: Callable[[str], Path]) -> None:
    """With cuts forced every few characters, growing and repeated texts, on one tokenizer of each known kind."""
    plain = tokenizers.Tokenizer.from_file(str(model_folder(name) / "tokenizer.json"))
    cuts = SegmentCuts(json.loads(plain.to_str()), long_chars=16, chunk_chars=8)
    cache = SegmentCache(lambda piece: reference_ids(plain, piece), cuts, max_bytes=100_000)
    tokens = [token.content for token in plain.get_added_tokens_decoder().values()]

    grown = ""
    for text in hard_texts(tokens, 400):
        grown = (grown + text)[-2_000:]
        assert reference_ids(plain, text) == cache.encode(text)
        assert reference_ids(plain, grown) == cache.encode(grown)


def test_a_long_line_is_cut_in_linear_time() -> None:
    """No second look at what holds no cut: a megabyte of one line is one piece."""
    text = "x" * 1_000_000

    assert [text] == list(SegmentCuts(definition()).split(text))
