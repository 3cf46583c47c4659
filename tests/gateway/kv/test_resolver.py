"""Publisher hashes become our own, and only where a prompt could match them."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.kv.events import BlockStored, decode
from gateway.kv.resolver import SLACK, Resolver, UnresolvedError
from gateway.prompt.blocks import chain_root, extend_chain, pack_tokens
from tests.gateway.kv import frames

SECRET = b"secret"
SPACE = "tiny"


def own_chain(tokens: list[int], block_size: int, *, lora: str = "", salt: str = "") -> list[int]:
    """What a prompt of these tokens hashes to."""
    return extend_chain(chain_root(SECRET, SPACE, lora, salt, block_size), pack_tokens(tokens), block_size)


def store(hashes: list[int], tokens: list[int], parent: int | None = None, **fields: Any) -> BlockStored:
    """A GPU store of blocks of two tokens."""
    event = BlockStored(hashes, parent, pack_tokens(tokens), 2, "GPU", group=0, attention="full_attention")
    return event._replace(**fields)


def captured(name: str) -> list[BlockStored]:
    """The stored events of a captured payload."""
    return [event for event in decode(frames.payload(name)).events if isinstance(event, BlockStored)]


@pytest.fixture
def resolver() -> Resolver:
    return Resolver(SECRET, SPACE)


def test_blocks_chain_onto_their_parent(resolver: Resolver) -> None:
    """A second store on top of the first continues its chain, as one prompt's hashes do."""
    first = resolver.resolve(store([11, 12], [1, 2, 3, 4]))
    second = resolver.resolve(store([13], [5, 6], parent=12))

    assert [*first.blocks, *second.blocks] == own_chain([1, 2, 3, 4, 5, 6], 2)
    assert (first.rooted, second.rooted) == (True, False)
    assert list(resolver.ancestors(second.blocks[0])) == [second.blocks[0], *reversed(first.blocks)]


def test_a_captured_conversation_equals_the_prompts_own_hashes(resolver: Resolver) -> None:
    """Real stores of a shared prefix, one on top of the other, give the chain of the whole prompt."""
    (head,) = captured("01_stored_3blocks")
    (tail,) = captured("02_stored_shared_prefix")

    resolver.resolve(head)
    chain = resolver.resolve(tail)

    tokens = [*range(100, 164), *memoryview(tail.tokens).cast("I")]
    assert list(chain.blocks) == own_chain(tokens, 32)[2:]


def test_the_salt_of_the_first_block_separates(resolver: Resolver) -> None:
    """A captured salted store is the chain of the same tokens under that salt."""
    (event,) = captured("03_stored_cache_salt")

    tokens = list(memoryview(event.tokens).cast("I"))
    assert list(resolver.resolve(event).blocks) == own_chain(tokens, 32, salt="s1")


def test_bytes_hashes_and_a_salt(resolver: Resolver) -> None:
    """Whole digests as hashes work as numbers do."""
    (event,) = captured("09_bytes_hash_sha256_cbor")

    tokens = list(memoryview(event.tokens).cast("I"))
    assert list(resolver.resolve(event).blocks) == own_chain(tokens, 32, salt="zz")
    assert resolver.own(event.hashes[0]) == own_chain(tokens, 32, salt="zz")[0]


def test_a_loras_name_is_no_salt(resolver: Resolver) -> None:
    """A captured LoRA store has the name on every block; it goes into the root once."""
    (event,) = captured("11_lora")

    tokens = list(memoryview(event.tokens).cast("I"))
    assert list(resolver.resolve(event).blocks) == own_chain(tokens, 32, lora="ad1")


def test_a_salt_that_equals_the_loras_name_is_kept(resolver: Resolver) -> None:
    """Only one of two equal keys is the LoRA's."""
    event = store([11, 12], [1, 2, 3, 4], lora_name="a", lora_id=1, extra_keys=[["a", "a"], ["a"]])

    assert list(resolver.resolve(event).blocks) == own_chain([1, 2, 3, 4], 2, lora="a", salt="a")


@pytest.mark.parametrize("keys", [["embeds", "salt"], [["image", 0]], "image", [b"digest"], {"a": 1}])
def test_other_keys_end_the_chain(resolver: Resolver, keys: object) -> None:
    """An image or an embedding hides its block and all after it, not the text before."""
    chain = resolver.resolve(store([11, 12, 13], [1, 2, 3, 4, 5, 6], extra_keys=[None, keys, None]))

    assert list(chain.blocks) == own_chain([1, 2], 2)
    assert resolver.own(12) is None
    with pytest.raises(UnresolvedError, match="excluded"):
        resolver.resolve(store([14], [7, 8], parent=13))
    with pytest.raises(UnresolvedError, match="excluded"):
        resolver.resolve(store([15], [9, 9], parent=14))


def test_a_string_beyond_the_first_block_is_no_salt(resolver: Resolver) -> None:
    """Only a prompt's first block carries a salt; elsewhere a lone string is something unknown."""
    resolver.resolve(store([11], [1, 2]))

    with pytest.raises(UnresolvedError, match="excluded"):
        resolver.resolve(store([12], [3, 4], parent=11, extra_keys=[["digest"]]))


def test_a_hybrid_models_sliding_group_is_left_out(resolver: Resolver) -> None:
    """Of a captured hybrid batch only the full-attention group is indexed, hash for hash."""
    sliding, full = captured("15_hybrid_groups_0")

    with pytest.raises(UnresolvedError, match="attention_kind"):
        resolver.resolve(sliding)
    assert len(resolver.resolve(full).blocks) == 8
    assert resolver.follows_group(1)
    assert not resolver.follows_group(0)


def test_only_the_first_group_counts(resolver: Resolver) -> None:
    """A second full-attention group repeats what the first one says."""
    resolver.resolve(store([11], [1, 2]))

    with pytest.raises(UnresolvedError, match="other_group"):
        resolver.resolve(store([11], [1, 2], group=1))


def test_a_group_that_is_not_said_is_the_one(resolver: Resolver) -> None:
    """Releases before 0.20 have none, and what they stored is known still when one is said."""
    resolver.resolve(store([11], [1, 2], group=None))
    resolver.resolve(store([12], [3, 4], parent=11, group=2))
    resolver.resolve(store([13], [5, 6], parent=12, group=None))

    assert [resolver.follows_group(group) for group in (None, 2, 0)] == [True, True, False]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"parent": 99}, "orphan"),
        ({"lora_id": 3}, "unnamed_lora"),
        ({"attention": "mamba"}, "attention_kind"),
        ({"tokens": pack_tokens([1])}, "shape"),
        ({"block_size": 4}, "shape"),
        ({"block_size": 0}, "shape"),
    ],
)
def test_what_cannot_be_named_says_why(resolver: Resolver, changes: dict[str, Any], reason: str) -> None:
    """Each reason not to index an event is one word."""
    with pytest.raises(UnresolvedError, match=reason):
        resolver.resolve(store([11], [1, 2])._replace(**changes))


def test_a_partly_filled_block_is_left_out(resolver: Resolver) -> None:
    """vLLM may cache the filled part of a block under a hash of its own; full blocks are what counts."""
    resolver.resolve(store([11], [1, 2]))

    with pytest.raises(UnresolvedError, match="partial_block"):
        resolver.resolve(store([12], [3], parent=11, block_size=1))
    assert resolver.block_size == 2


def test_latent_attention_is_a_whole_prefix(resolver: Resolver) -> None:
    """DeepSeek's groups are called mla_attention."""
    assert resolver.resolve(store([11], [1, 2], attention="mla_attention")).blocks


def test_placeholders_are_resolved_through_the_gpus_hashes(resolver: Resolver) -> None:
    """vLLM's own offloading sends hashes alone, the GPU's; unknown ones are left out."""
    offloaded = Resolver(SECRET, SPACE)
    blocks = resolver.resolve(store([11, 12], [1, 2, 3, 4])).blocks
    placeholder = BlockStored([11, 12, 99], None, b"", 0, "CPU")

    assert list(offloaded.adopt(placeholder, resolver).blocks) == list(blocks)
    assert offloaded.own(12) == blocks[1]
    assert list(offloaded.ancestors(blocks[1])) == [blocks[1], blocks[0]]
    assert offloaded.block_size == 2
    with pytest.raises(UnresolvedError, match="placeholder"):
        offloaded.adopt(BlockStored([98], None, b"", 0, "CPU"), resolver)


def test_an_exported_state_is_gone_on_from(resolver: Resolver) -> None:
    """What hashes mean, which group counts, and what is below a block; neither side sees what the other learns."""
    first = resolver.resolve(store([11, 12], [1, 2, 3, 4]))
    state = resolver.export()
    resolver.resolve(store([14], [9, 9]))

    other = Resolver(SECRET, SPACE, state)
    second = other.resolve(store([13], [5, 6], parent=12))

    assert [*first.blocks, *second.blocks] == own_chain([1, 2, 3, 4, 5, 6], 2)
    assert list(other.ancestors(second.blocks[0])) == [second.blocks[0], *reversed(first.blocks)]
    assert not other.follows_group(1)
    assert other.block_size == 2
    assert (other.own(14), resolver.own(13)) == (None, None)
    assert len(state.own) == 2


def test_the_bound_goes_with_the_state(resolver: Resolver) -> None:
    """After a purge nothing is forgotten elsewhere either."""
    count = 2 * SLACK
    tokens = [token for block in range(count) for token in (block, block)]
    resolver.resolve(store(list(range(1, count + 1)), tokens))
    resolver.forget_unowned(set(resolver.ancestors(own_chain(tokens, 2)[-1])))

    other = Resolver(SECRET, SPACE, resolver.export())
    other.forget_unowned(set())

    assert len(other) == count


def test_it_is_bounded_and_never_forgets_what_is_owned(resolver: Resolver) -> None:
    """However much passes, old unowned entries go and owned ones stay with their ancestors' names."""
    owned = set(resolver.resolve(store([1], [1, 2])).blocks)
    for hash_ in range(2, 3 * SLACK):
        resolver.resolve(store([hash_], [hash_, hash_]))
        resolver.forget_unowned(owned)

    assert len(resolver) <= SLACK + 2 * len(owned)
    assert resolver.own(1) in owned
    assert resolver.own(2) is None
    assert resolver.own(3 * SLACK - 1) is not None


def test_a_purge_forgets_nothing(resolver: Resolver) -> None:
    """When nothing is owned any more after a gap, what hashes mean is still known."""
    count = 2 * SLACK
    tokens = [token for block in range(count) for token in (block, block)]
    resolver.resolve(store(list(range(1, count + 1)), tokens))
    resolver.forget_unowned(set(resolver.ancestors(own_chain(tokens, 2)[-1])))

    resolver.forget_unowned(set())

    assert len(resolver) == count


def test_beginnings_sent_with_a_salt_are_nobodys_where_the_publisher_tells_no_salt() -> None:
    """Neither they nor what is stored on top of them; other prompts are; and what is sent later is no different."""
    salted: set[int] = set()
    resolver = Resolver(SECRET, SPACE, salted=salted)
    salted.update(own_chain([1, 2], 2))

    for event, reason in ((store([1, 2], [1, 2, 3, 4]), "salted"), (store([3], [5, 6], parent=2), "excluded")):
        with pytest.raises(UnresolvedError, match=reason):
            resolver.resolve(event)
    assert list(resolver.resolve(store([8], [7, 8])).blocks) == own_chain([7, 8], 2)


def test_a_publisher_that_tells_salts_is_believed() -> None:
    """From the first event on that says what besides tokens goes into its blocks, if only that nothing does."""
    salted = set(own_chain([1, 2], 2))
    resolver = Resolver(SECRET, SPACE, salted=salted)
    plain = resolver.resolve(store([1], [1, 2], tells_keys=True))
    with_salt = resolver.resolve(store([2], [1, 2], extra_keys=[["s"]], tells_keys=True))

    assert list(plain.blocks) == own_chain([1, 2], 2)
    assert list(with_salt.blocks) == own_chain([1, 2], 2, salt="s")
    assert list(resolver.resolve(store([3], [1, 2])).blocks) == own_chain([1, 2], 2)


def test_only_a_prompts_first_block_is_looked_at() -> None:
    """Others with the same hash as some beginning are not beginnings."""
    resolver = Resolver(SECRET, SPACE, salted=set(own_chain([1, 2, 3, 4], 2)[1:]))
    resolver.resolve(store([1], [1, 2]))

    assert list(resolver.resolve(store([2], [3, 4], parent=1)).blocks) == own_chain([1, 2, 3, 4], 2)[1:]
