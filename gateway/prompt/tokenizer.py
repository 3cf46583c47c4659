"""Tokenizer: text to token ids as bytes, by a fast library that must prove equal to the reference.

``fastokens`` is 20 to 150 times faster than ``tokenizers`` and gave the same ids for 76 million fuzzed
tokens; but it refuses some tokenizers and is young, so it is checked against the reference whenever a
tokenizer is loaded.

Special tokens around a text (completions, mostly) follow transformers 5: ``tokenizer.json`` alone decides.
transformers 4 also heeded ``add_bos_token`` of ``tokenizer_config.json`` for Llama's class.
"""

from __future__ import annotations

import json
import logging
import random
from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

import fastokens
import tokenizers

from gateway.prompt.blocks import pack_tokens
from gateway.prompt.segment_cache import SegmentCache, SegmentCuts
from gateway.prompt.tokenizer_files import TokenizerFiles, TokenizerNotFound

logger = logging.getLogger(__name__)

_FAST_CACHE_BYTES = 32 << 20
_SEGMENT_CACHE_BYTES = 64 << 20
_CHECKS = 200
# fmt: off
_HARD_PIECES = (
    "The quick brown fox", " it's", "WE'RE", " 1234567", "3.14", "\n", "\n\n", "\r\n", "\t", "   ",
    "\u00a0", "\u200b", "cafe\u0301", "caf\u00e9", "\u1e9b\u0323", "\u4f60\u597d\u4e16\u754c",
    "\ud55c\uad6d\uc5b4", "\u0645\u0631\u062d\u0628\u0627", "\u0939\u093f\u0928\u094d\u0926\u0940", "\ufffd",
    " \u3000", "\u3053\u3093", "\u2581", "\U0001f600", "\U0001f468\u200d\U0001f469\u200d\U0001f467",
    "def f(x):\n    return x/2", "\u0120", '{"a": [1, null]}', "<b>&amp;</b>",
    "\x00", "\x1b[0m", "https://a.b/c?d=e#f", "-----", "!!!", "a" * 16, "\\n",
)
# fmt: on


class Tokenizer(Protocol):
    """Encodes from any thread."""

    inline_chars: int  # up to here encoding takes less than the hop to another thread and back

    def encode(self, text: str, *, add_special_tokens: bool) -> bytes:
        """Token ids as uint32, little-endian. ``text`` must be encodable as UTF-8."""
        ...


class SpecialFrame(NamedTuple):
    """Ids (uint32, little-endian) put around a text when special tokens are asked for."""

    before: bytes
    after: bytes


class FastTokenizer:
    """fastokens: releases the GIL, its caches are bounded (about 400 MB at worst)."""

    inline_chars = 16_000

    def __init__(self, backend: fastokens.Tokenizer, frame: SpecialFrame) -> None:
        self._backend = backend
        self._frame = frame

    def encode(self, text: str, *, add_special_tokens: bool) -> bytes:
        ids: bytes = self._backend.encode_batch_flat([text], False)[0]
        return self._frame.before + ids + self._frame.after if add_special_tokens else ids


class ReferenceTokenizer:
    """Hugging Face's tokenizers, with a cache of text segments in front."""

    inline_chars = 1_000

    def __init__(self, backend: tokenizers.Tokenizer, frame: SpecialFrame, cuts: SegmentCuts) -> None:
        self._backend = backend
        self._frame = frame
        self._cache = SegmentCache(self._encode_plain, cuts, _SEGMENT_CACHE_BYTES)

    def encode(self, text: str, *, add_special_tokens: bool) -> bytes:
        ids = self._cache.encode(text)
        return self._frame.before + ids + self._frame.after if add_special_tokens else ids

    def _encode_plain(self, text: str) -> bytes:
        return reference_ids(self._backend, text)


def load_tokenizer(files: TokenizerFiles) -> Tokenizer:
    """Takes seconds, and hundreds of MB: call it in a thread. Raises :class:`TokenizerNotFound`."""
    source = files.tokenizer_json.read_text("utf-8")
    reference = _load_reference(files, source)
    added = _tokens_to_add(files, reference)
    reference.add_tokens(added)
    frame = special_frame(reference)
    fast = _load_fast(files, source, added)
    if fast is not None and _agree(fast, reference):
        return FastTokenizer(fast, frame)
    logger.warning("%s: encoding with the slower `tokenizers`", files.tokenizer_json)
    return ReferenceTokenizer(reference, frame, SegmentCuts(json.loads(reference.to_str())))


def reference_ids(backend: tokenizers.Tokenizer, text: str) -> bytes:
    """Ids of ``text`` alone, by the call that spends no third of its time on offsets."""
    return pack_tokens(backend.encode_batch_fast([text], add_special_tokens=False)[0].ids)


def special_frame(reference: tokenizers.Tokenizer) -> SpecialFrame:
    """What the post-processor of ``tokenizer.json`` puts around a text, seen on a sample."""
    plain = reference.encode("a", add_special_tokens=False).ids
    framed = reference.encode("a", add_special_tokens=True).ids
    start = next((i for i in range(len(framed)) if framed[i : i + len(plain)] == plain), 0)
    return SpecialFrame(pack_tokens(framed[:start]), pack_tokens(framed[start + len(plain) :]))


def _load_reference(files: TokenizerFiles, source: str) -> tokenizers.Tokenizer:
    try:
        reference = tokenizers.Tokenizer.from_str(source)
    except Exception as error:  # the library raises plain Exception for a malformed file
        raise TokenizerNotFound(f"{files.tokenizer_json}: not a tokenizer: {error}") from error
    # Some files were saved with a training set-up; vLLM encodes whole prompts.
    reference.no_truncation()
    reference.no_padding()
    return reference


def _load_fast(files: TokenizerFiles, source: str, added: list[tokenizers.AddedToken]) -> fastokens.Tokenizer | None:
    try:
        fast = fastokens.Tokenizer.from_json_str(source)
    except ValueError as error:
        logger.info("%s: fastokens does not take it: %s", files.tokenizer_json, error)
        return None
    fast.no_truncation()
    fast.no_padding()
    if added:
        fast.add_tokens(added)
    fast.enable_segment_cache(_FAST_CACHE_BYTES)
    return fast


def _tokens_to_add(files: TokenizerFiles, reference: tokenizers.Tokenizer) -> list[tokenizers.AddedToken]:
    """Added tokens that only ``tokenizer_config.json`` has; transformers adds them too, in this order."""
    known = {token.content for token in reference.get_added_tokens_decoder().values()}
    tokens = {token.content: token for token in _configured_tokens(files.config)}
    for text in files.special_tokens.values():
        tokens.setdefault(text, tokenizers.AddedToken(text, special=True))
    return [token for text, token in tokens.items() if text not in known]


def _configured_tokens(config: Any) -> Iterator[tokenizers.AddedToken]:
    decoder = config.get("added_tokens_decoder")
    entries = decoder.items() if isinstance(decoder, dict) else ()
    flags = ("lstrip", "rstrip", "single_word", "normalized", "special")
    for _, entry in sorted(entries, key=lambda item: int(item[0])):
        yield tokenizers.AddedToken(entry["content"], **{flag: bool(entry.get(flag)) for flag in flags})


def _agree(fast: fastokens.Tokenizer, reference: tokenizers.Tokenizer) -> bool:
    """Whether both give the same ids for hard texts; asked twice, as the second answer is cached."""
    tokens = [token.content for token in reference.get_added_tokens_decoder().values()]
    texts = list(_hard_texts(tokens, random.Random(0)))
    expected = [reference_ids(reference, text) for text in texts]
    for _ in range(2):
        for text, ids in zip(texts, expected):
            if fast.encode_batch_flat([text], False)[0] != ids:
                logger.warning("fastokens and tokenizers disagree on a check text")
                return False
    return True


def _hard_texts(tokens: list[str], dice: random.Random) -> Iterator[str]:
    """Special tokens whole and cut, between white space, combining marks, scripts, emoji, code, controls."""
    tokens = tokens or ["<s>"]
    for _ in range(_CHECKS):
        parts = dice.choices(_HARD_PIECES, k=dice.randrange(1, 12))
        token = dice.choice(tokens)
        parts.insert(dice.randrange(len(parts) + 1), token)
        parts.insert(dice.randrange(len(parts) + 1), token[: dice.randrange(len(token) + 1)])
        yield "".join(parts)
