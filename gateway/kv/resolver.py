"""Resolver: a publisher's block hashes -> our own, in one hash space.

A space is one (replica, medium, KV cache group): vLLM's GPU blocks and LMCache's chunks are named by
unrelated hashes of unrelated sizes. The resolver is *content*: what a hash means never changes while the
engine process lives, so it survives gaps and clears. What is held right now is
:mod:`gateway.kv.ownership`'s business; the resolver asks it only when it must forget something.
"""

from __future__ import annotations

from collections.abc import Container, Generator, Iterable, Iterator, Mapping, Sequence, Sized
from itertools import islice
from typing import NamedTuple, Protocol

from gateway.kv.events import BlockHash, BlockStored
from gateway.prompt.blocks import TOKEN_BYTES, chain_root, extend_chain

#: Kinds of attention for which a cached prefix is usable from its first block on. Others keep a part only.
WHOLE_PREFIX_ATTENTION = frozenset((None, "full_attention", "mla_attention", "sink_full_attention"))
#: Own hash of a block that is deliberately not indexed, such as one with an image in it.
EXCLUDED = 0
#: How many entries a resolver may always keep, however little was owned.
SLACK = 4096
_TRIM_STEP = 3_000


class UnresolvedError(Exception):
    """A BlockStored that says nothing about an index of ours. Carries the reason, one word."""


class Chain(NamedTuple):
    """Own hashes of contiguous blocks, chained onto ``parent``. ``rooted``: they start a prompt."""

    blocks: Sequence[int]
    parent: int
    rooted: bool


class ResolverState(NamedTuple):
    """What a resolver knows, as a copy: for another under the same secret and namespace to go on from."""

    own: Mapping[BlockHash, int] = {}  # publisher's hash -> our own; the oldest first
    parents: Mapping[int, int] = {}  # own hash -> own hash of its parent, or the chain's root
    group: int | None = None
    block_size: int = 0  # tokens; 0: nothing stored yet
    most_owned: int = 0  # blocks


NOTHING_RESOLVED = ResolverState()


class OwnedBlocks(Sized, Container[int], Protocol):
    """Own hashes that must not be forgotten, since their removal has yet to be understood."""


class Resolver:
    """Bounded: twice what was ever owned at once, and some slack; the oldest unowned entries go first."""

    def __init__(
        self,
        secret: bytes,
        namespace: str,
        state: ResolverState = NOTHING_RESOLVED,
        *,
        salted: Container[int] = frozenset(),
    ) -> None:
        """``salted``: first blocks of prompts that were sent with a cache salt, as without it; it may change."""
        self._salted = salted
        self._tells_keys = False  # whether the publisher ever did
        self._secret = secret
        self._namespace = namespace
        self._most_owned = state.most_owned
        self._own = dict(state.own)
        self._parents = dict(state.parents)
        self._group = state.group
        self.block_size = state.block_size  # tokens; 0: nothing stored yet

    def __len__(self) -> int:
        return len(self._own)

    def __repr__(self) -> str:
        return f"<Resolver {len(self._own)} hashes, block size {self.block_size}>"

    def export(self) -> ResolverState:
        """A copy, for a resolver elsewhere. A few milliseconds for 100,000 entries."""
        return ResolverState(self._own.copy(), self._parents.copy(), self._group, self.block_size, self._most_owned)

    def own(self, publisher_hash: BlockHash) -> int | None:
        """Our hash of a publisher's block; ``None``: unknown or excluded."""
        return self._own.get(publisher_hash) or None

    def knows(self, block: int) -> bool:
        """Whether a block, by own hash, was ever stored here: held still or not. Forgotten with the bound."""
        return block in self._parents

    def follows_group(self, group: int | None) -> bool:
        """Whether this space is that KV cache group's: the first one that was stored here, if any was.

        Where one of the two is not said, as up to vLLM 0.18, there is but one.
        """
        return self.block_size == 0 or group == self._group or group is None or self._group is None

    def parent(self, block: int) -> int:
        """What comes before a block: another one or the chain's root; :data:`EXCLUDED` where that is not known."""
        return self._parents.get(block, EXCLUDED)

    def ancestors(self, block: int) -> Iterator[int]:
        """``block`` and what comes before it, back to the prompt's first block, as far as they are known."""
        parents = self._parents
        while block in parents:
            yield block
            block = parents[block]

    def resolve(self, event: BlockStored) -> Chain:
        """Learn a stored event's blocks. Raises :class:`UnresolvedError` where no prompt could match them."""
        self._check(event)
        salt, usable = _read_extra_keys(event)
        parent = self._parent(event, salt)
        blocks = extend_chain(parent, event.tokens[: usable * event.block_size * TOKEN_BYTES], event.block_size)
        self._tells_keys = self._tells_keys or event.tells_keys
        if not self._tells_keys and event.parent is None and blocks and blocks[0] in self._salted:
            self._learn(event.hashes, (), EXCLUDED)
            raise UnresolvedError("salted")
        self._learn(event.hashes, blocks, parent)
        if not blocks and event.hashes:
            raise UnresolvedError("excluded")
        return Chain(blocks, parent, event.parent is None)

    def names(self, hashes: Iterable[BlockHash]) -> bool:
        """Whether any of these was ever stored here, also as a block that is not indexed."""
        return not self._own.keys().isdisjoint(hashes)

    def adopt(self, event: BlockStored, origin: Resolver) -> Chain:
        """Resolve an event through the space whose hashes it uses: vLLM's own offloading names blocks as the GPU does.

        It leaves out the tokens, or what besides them went into a block, as a salt; blocks that the GPU's events did
        not name are left out.
        """
        if event.attention not in WHOLE_PREFIX_ATTENTION:
            raise UnresolvedError("attention_kind")
        if not origin.follows_group(event.group):
            raise UnresolvedError("other_group")
        pairs = [(hash_, own) for hash_ in event.hashes if (own := self.own(hash_) or origin.own(hash_))]
        if not pairs:
            raise UnresolvedError("placeholder")
        if self.block_size == 0:
            self.block_size, self._group = origin.block_size, event.group
        self._own.update(pairs)
        for _, own in pairs:
            if (parent := origin.parent(own)) != EXCLUDED:
                self._parents.setdefault(own, parent)
        return Chain([own for _, own in pairs], EXCLUDED, rooted=False)

    def forget_unowned(self, owned: OwnedBlocks) -> None:
        """Keep to the bound. Cheap unless there is much to forget. After a purge nothing needs to go."""
        self._most_owned = max(self._most_owned, len(owned))
        if len(self._own) <= 2 * self._most_owned + SLACK:
            return
        excess = len(self._own) - self._most_owned * 3 // 2 - SLACK // 2
        unowned = ((hash_, own) for hash_, own in self._own.items() if own not in owned)
        for hash_, own in list(islice(unowned, excess)):
            del self._own[hash_]
            self._parents.pop(own, None)

    @property
    def spare(self) -> int:
        """Entries beyond what was ever owned at once: what they name is gone, most likely."""
        return max(0, len(self._own) - self._most_owned)

    def trim(self, owned: OwnedBlocks, *, to_owned: bool) -> Generator[None, None, int]:
        """Forget the oldest entries that are spare, step by step, a millisecond each; how many that were.

        ``to_owned``: all that are not owned, which may be wanted still where what is held is not known any more.
        """
        if to_owned:
            self._most_owned = len(owned)
        forgotten = 0
        for position, hash_ in enumerate(list(self._own)):
            if not self.spare:
                break
            own = self._own.get(hash_)
            if own is not None and own not in owned:
                del self._own[hash_]
                self._parents.pop(own, None)
                forgotten += 1
            if position % _TRIM_STEP == 0:
                yield
        return forgotten

    def _check(self, event: BlockStored) -> None:
        if event.attention not in WHOLE_PREFIX_ATTENTION:
            raise UnresolvedError("attention_kind")
        if event.lora_id is not None and event.lora_name is None:
            raise UnresolvedError("unnamed_lora")  # up to vLLM 0.12: an id that says nothing to another process
        if len(event.tokens) != len(event.hashes) * event.block_size * TOKEN_BYTES or event.block_size == 0:
            raise UnresolvedError("shape")
        if not self.follows_group(event.group):
            raise UnresolvedError("other_group")
        if self._group is None:
            self._group = event.group
        if event.block_size < self.block_size:
            raise UnresolvedError("partial_block")  # vLLM may cache the filled part of a block; we count full ones
        self.block_size = event.block_size

    def _parent(self, event: BlockStored, salt: str) -> int:
        if event.parent is None:
            return chain_root(self._secret, self._namespace, event.lora_name or "", salt, event.block_size)
        parent = self._own.get(event.parent)
        if parent == EXCLUDED:
            self._learn(event.hashes, (), EXCLUDED)
            raise UnresolvedError("excluded")
        if parent is None:
            raise UnresolvedError("orphan")
        return parent

    def _learn(self, hashes: Sequence[BlockHash], blocks: Sequence[int], parent: int) -> None:
        for hash_, block in zip(hashes, blocks):
            self._own[hash_] = block
            self._parents[block] = parent
            parent = block
        for hash_ in hashes[len(blocks) :]:
            self._own[hash_] = EXCLUDED


def _read_extra_keys(event: BlockStored) -> tuple[str, int]:
    """The cache salt, and how many of the blocks are text alone.

    An entry is what besides the tokens went into the block's hash: the LoRA's name, ``[identifier, offset]`` of
    an image or a sound, on a prompt's first block the cache salt, and digests of prompt embeddings.
    """
    salt = ""
    for position, keys in enumerate(event.extra_keys or ()):
        rest = _without(keys, event.lora_name)
        if not rest:
            continue
        if position or event.parent is not None or len(rest) > 1 or not isinstance(rest[0], str):
            return salt, position
        salt = rest[0]
    return salt, len(event.hashes)


def _without(keys: object, lora_name: str | None) -> Sequence[object]:
    """A block's extra keys but the LoRA's name. What is not a list of keys is one key."""
    if not isinstance(keys, list):
        return () if keys is None else (keys,)
    if lora_name is None or lora_name not in keys:
        return keys
    rest = list(keys)
    rest.remove(lora_name)
    return rest
