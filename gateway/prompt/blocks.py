"""Token ids -> chained block hashes. Our own hash, so that it never depends on how an engine hashes.

    h_i = xxh3_64(h_(i-1) as 8 bytes little-endian || the block's token ids as uint32 little-endian)

The root h_(-1) is keyed by a secret of the deployment, so that nobody outside can aim at somebody's blocks, and by
everything that makes equal tokens a different KV block: namespace, LoRA, cache salt and block size.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterable

from xxhash import xxh3_64_intdigest

_PACK_PARENT = struct.Struct("<Q").pack
TOKEN_BYTES = 4


def chain_root(secret: bytes, namespace: str, lora: str, cache_salt: str, block_size: int) -> int:
    """The parent of a prompt's first block: one per (secret, namespace, LoRA name, salt, block size in tokens)."""
    parts = [secret, namespace.encode(), lora.encode(), cache_salt.encode()]
    framed = b"".join(struct.pack("<Q", len(part)) + part for part in parts)
    return xxh3_64_intdigest(framed + struct.pack("<I", block_size))


def extend_chain(parent: int, tokens: bytes | memoryview, block_size: int) -> list[int]:
    """Hashes of the full blocks in ``tokens`` (uint32, little-endian), chained onto ``parent``."""
    step = block_size * TOKEN_BYTES
    hashes: list[int] = []
    for start in range(0, len(tokens) - step + 1, step):
        parent = xxh3_64_intdigest(_PACK_PARENT(parent) + tokens[start : start + step])
        hashes.append(parent)
    return hashes


def pack_tokens(ids: Iterable[int]) -> bytes:
    """Token ids as uint32, little-endian. Raises ``OverflowError`` or ``TypeError`` on what is no token id."""
    packed = array("I", ids)
    if struct.pack("=I", 1) != b"\x01\0\0\0":
        packed.byteswap()
    return packed.tobytes()


def matchable_blocks(prompt_tokens: int, block_size: int) -> int:
    """How many leading blocks a cache can spare: never the one that holds the last token, which vLLM recomputes."""
    return max(0, (prompt_tokens - 1) // block_size)
