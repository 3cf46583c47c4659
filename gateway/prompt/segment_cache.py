"""SegmentCache: token ids of text segments, so that a growing conversation is not encoded anew each time.

For the slow tokenizer only. Exact, because text is cut only where the tokenizer itself never joins:

1. at added tokens (``<|im_end|>``) that are matched before normalisation: the library splits there first;
2. inside long segments, between a newline and an ASCII letter, and only for pre-tokenizers on a list:
   byte-level BPE whose pattern always starts a new word at such a letter, with no normaliser or with NFC,
   which never composes across one.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from threading import Lock
from typing import Any

from xxhash import xxh3_128_digest

_LONG_CHARS = 3_072
_CHUNK_CHARS = 2_048
_ENTRY_BYTES = 200  # key, value header and dict slot of one entry, roughly
_LINE_END = re.compile(r"\n(?=[A-Za-z])")
_CONTRACTION = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_SPACES = r"\s*[\r\n]+|\s+(?!\S)|\s+"
_GPT4 = rf"{_CONTRACTION}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}{{1,3}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|{_SPACES}"
_QWEN = _GPT4.replace("{1,3}", "")
_QWEN_3_5 = _QWEN.replace(r"\p{L}+", r"[\p{L}\p{M}]+").replace(r"\s\p{L}\p{N}", r"\s\p{L}\p{M}\p{N}")
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_O200K = (
    rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+{_CONTRACTION}?|"
    rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*{_CONTRACTION}?|"
    rf"\p{{N}}{{1,3}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|{_SPACES}"
)
_DEEPSEEK_3 = (
    r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|"""
    "[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"
)
# The Split patterns of a pre-tokenizer, in order. GPT-4's serves Llama 3 and GLM, o200k (GPT-4o) MiniMax.
_KNOWN_PATTERNS = frozenset(
    {
        (_GPT4,),
        (_QWEN,),
        (_QWEN_3_5,),
        (_O200K,),
        (r"\p{N}{1,3}", "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+", _DEEPSEEK_3),
    }
)


class SegmentCuts:
    """Where a tokenizer's text may be cut, from its ``tokenizer.json``."""

    def __init__(
        self, definition: Mapping[str, Any], long_chars: int = _LONG_CHARS, chunk_chars: int = _CHUNK_CHARS
    ) -> None:
        self._added = _added_tokens_pattern(definition)
        self._long_chars = long_chars if _is_known(definition) else 0
        self._chunk_chars = chunk_chars

    def split(self, text: str) -> Iterator[str]:
        """Pieces whose ids, one after the other, are the ids of ``text``."""
        if self._added is None:
            yield text
            return
        start = 0
        for match in self._added.finditer(text):
            if match.start() > start:
                yield from self._chunks(text[start : match.start()])
            start = match.start()
        yield from self._chunks(text[start:])

    def _chunks(self, segment: str) -> Iterator[str]:
        start = 0
        if self._long_chars and len(segment) > self._long_chars:
            while line_end := _LINE_END.search(segment, start + self._chunk_chars):
                yield segment[start : line_end.end()]
                start = line_end.end()
        yield segment[start:]


class SegmentCache:
    """Least recently used, bounded by ``max_bytes``, safe to use from several threads."""

    def __init__(self, encode: Callable[[str], bytes], cuts: SegmentCuts, max_bytes: int) -> None:
        self._encode = encode
        self._cuts = cuts
        self._max_bytes = max_bytes
        self._ids: OrderedDict[bytes, bytes] = OrderedDict()
        self._lock = Lock()
        self.bytes = 0

    def encode(self, text: str) -> bytes:
        """Token ids of ``text`` as uint32, little-endian, without special tokens around them."""
        return b"".join(map(self._piece, self._cuts.split(text)))

    def _piece(self, piece: str) -> bytes:
        key = xxh3_128_digest(piece.encode())
        with self._lock:
            ids = self._ids.get(key)
            if ids is not None:
                self._ids.move_to_end(key)
                return ids
        ids = self._encode(piece)
        self._keep(key, ids)
        return ids

    def _keep(self, key: bytes, ids: bytes) -> None:
        with self._lock:
            if key in self._ids:
                return
            self._ids[key] = ids
            self.bytes += len(ids) + _ENTRY_BYTES
            while self.bytes > self._max_bytes:
                _, oldest = self._ids.popitem(last=False)
                self.bytes -= len(oldest) + _ENTRY_BYTES


def _added_tokens_pattern(definition: Mapping[str, Any]) -> re.Pattern[str] | None:
    """Matches added tokens as the library does, leftmost longest; ``None`` where cuts are not safe."""
    added = definition.get("added_tokens") or []
    if any(token.get("lstrip") or token.get("rstrip") or token.get("single_word") for token in added):
        return None
    contents = [token["content"] for token in added if not token.get("normalized", True) and token["content"]]
    if not contents:
        return None
    return re.compile("|".join(map(re.escape, sorted(contents, key=len, reverse=True))))


def _is_known(definition: Mapping[str, Any]) -> bool:
    steps = _flat(definition.get("pre_tokenizer"), "pretokenizers")
    normalizers = _flat(definition.get("normalizer"), "normalizers")
    splits = tuple((step.get("pattern") or {}).get("Regex", "") for step in steps if step["type"] == "Split")
    byte_levels = [step for step in steps if step["type"] == "ByteLevel"]
    return (
        splits in _KNOWN_PATTERNS
        and len(steps) == len(splits) + len(byte_levels)
        and not any(step.get("add_prefix_space") or step.get("use_regex") for step in byte_levels)
        and all(normalizer["type"] == "NFC" for normalizer in normalizers)
        and not any("\n" in token["content"] for token in definition.get("added_tokens") or [])
    )


def _flat(step: Mapping[str, Any] | None, children: str) -> list[Mapping[str, Any]]:
    if step is None:
        return []
    if step["type"] != "Sequence":
        return [step]
    return [inner for child in step[children] for inner in _flat(child, children)]
