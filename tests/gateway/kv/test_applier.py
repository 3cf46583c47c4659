"""Events to index entries: tiers, copies, announcements and what is left out."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from gateway.fleet.replica_key import ReplicaKey
from gateway.kv.applier import Applier, SpaceState
from gateway.kv.events import AllBlocksCleared, BlockRemoved, BlockStored, EventBatch, KVEvent, decode
from gateway.kv.memory_index import MemoryIndex
from gateway.kv.tiers import Tier, TierTokens
from gateway.prompt.blocks import chain_root, extend_chain, pack_tokens
from tests.gateway.kv import frames

KEY = ReplicaKey("tiny", "a")
SECRET = b"secret"


def chain(tokens: list[int], block_size: int = 2, lora: str = "", salt: str = "") -> list[int]:
    """What a prompt hashes to."""
    return extend_chain(chain_root(SECRET, "tiny", lora, salt, block_size), pack_tokens(tokens), block_size)


def store(hashes: list[int], tokens: list[int], parent: int | None = None, medium: str = "GPU") -> BlockStored:
    """A store of blocks of two tokens."""
    return BlockStored(hashes, parent, pack_tokens(tokens), 2, medium)


class Replica:
    """One replica's events on their way into an index."""

    def __init__(self, state: Mapping[Tier, SpaceState] | None = None) -> None:
        self.index = MemoryIndex()
        self.block_sizes: list[tuple[Tier, int]] = []
        self.applier = Applier(
            KEY,
            self.index,
            secret=SECRET,
            block_size_seen=lambda tier, size: self.block_sizes.append((tier, size)),
            state=state,
        )
        self.index.begin(KEY, self.applier.owned())

    def see(self, *events: KVEvent) -> dict[str, int]:
        """One batch; what was dropped of it."""
        return dict(self.applier.apply(EventBatch(0.0, events)))

    def matched(self, tokens: list[int], block_size: int = 2) -> TierTokens:
        """What the index answers for a prompt."""
        return self.index.match_now({block_size: chain(tokens, block_size)}, [KEY])[KEY]


@pytest.fixture
def replica() -> Replica:
    return Replica()


def test_a_block_lives_until_its_last_copy_goes(replica: Replica) -> None:
    """Stored twice on top of its parent, removed twice; the captured duplicates behave the same."""
    replica.see(store([1], [1, 2]), store([2], [3, 4], parent=1), store([2], [3, 4], parent=1))

    replica.see(BlockRemoved([2], "GPU"))
    assert replica.matched([1, 2, 3, 4]).l0 == 4
    replica.see(BlockRemoved([2], "GPU"))
    assert replica.matched([1, 2, 3, 4]).l0 == 2


def test_an_announcement_repeated_is_no_copy(replica: Replica) -> None:
    """Any client can have blocks announced again: one removal ends them all the same."""
    replica.see(store([1, 2], [1, 2, 3, 4]))
    replica.see(store([1, 2], [1, 2, 3, 4]))

    replica.see(BlockRemoved([2], "GPU"), BlockRemoved([1], "GPU"))

    assert replica.matched([1, 2, 3, 4]).l0 == 0


def test_announcements_after_a_loss_are_no_copies_where_they_overlap(replica: Replica) -> None:
    """Of three prompts on one root each tells of what was lost, and there is still one copy of everything."""
    replica.see(store([1, 2, 3], [1, 2, 3, 4, 5, 6]))
    replica.applier.lose()
    for blocks in (1, 2, 3):
        replica.see(store([1, 2, 3][:blocks], [1, 2, 3, 4, 5, 6][: 2 * blocks]))
    replica.see(BlockRemoved([3, 2, 1], "GPU"))

    assert replica.applier.owned_blocks(Tier.L0) == 0


def test_a_store_credits_its_whole_ancestry_after_a_loss(replica: Replica) -> None:
    """What a new block stands on is resident, though nobody announces it again."""
    replica.see(store([1, 2, 3], [1, 2, 3, 4, 5, 6]))
    replica.applier.lose()
    assert replica.matched([1, 2, 3, 4, 5, 6]).l0 == 0

    replica.see(store([4], [7, 8], parent=3))

    assert replica.matched([1, 2, 3, 4, 5, 6, 7, 8]).l0 == 8
    assert replica.applier.copies(Tier.L0, chain([1, 2])[0]) == 1


def test_a_hot_prefix_survives_the_removal_of_its_copies(replica: Replica) -> None:
    """Computed at once by several requests, the spare copies go one by one: the next store heals the hole."""
    tokens = list(range(20))
    replica.see(store(list(range(1, 11)), tokens), store(list(range(1, 11)), tokens))
    replica.see(store([11, 12], [50, 51, 52, 53], parent=10))
    replica.see(BlockRemoved([1], "GPU"))
    assert replica.matched([*tokens, 50, 51]).l0 == 0

    replica.see(store([13, 14], [60, 61, 62, 63], parent=10))

    assert replica.matched([*tokens, 50, 51]).l0 == 22


def test_clearing_is_about_the_gpu_and_in_order(replica: Replica) -> None:
    """What the same batch stores after it stays, and so does host memory."""
    replica.see(store([1], [1, 2]), store([1], [1, 2], medium="CPU"))

    replica.see(store([2], [3, 4]), AllBlocksCleared(), store([3], [5, 6]))

    assert replica.matched([1, 2]) == TierTokens(0, 2, None)
    assert replica.matched([3, 4]).l0 == 0
    assert replica.matched([5, 6]).l0 == 2


@pytest.mark.parametrize(
    ("medium", "tier"),
    [(None, Tier.L0), ("GPU", Tier.L0), ("CPU", Tier.L1), ("cpu", Tier.L1), ("STORAGE", Tier.L2), ("FS", Tier.L2),
     ("OBJ", Tier.L2), ("disk", Tier.L2)],
)  # fmt: skip
def test_every_medium_has_its_tier(replica: Replica, medium: str | None, tier: Tier) -> None:
    """Old and new names; an eviction from one tier leaves the others."""
    event = store([1], [1, 2])._replace(medium=medium)
    assert replica.see(event) == {}
    assert [replica.index.owned(KEY, each) for each in Tier] == [int(each is tier) for each in Tier]
    assert replica.block_sizes == [(tier, 2)]

    replica.see(BlockRemoved([1], medium))
    assert replica.index.block_owners() == 0


def test_captured_host_memory_events_fill_l1(replica: Replica) -> None:
    """LMCache's chunks have hashes and a size of their own; only their tokens say what they are."""
    batch = decode(frames.payload("12_lmcache_cpu_stored"))
    stored = [event for event in batch.events if isinstance(event, BlockStored)]

    assert dict(replica.applier.apply(batch)) == {}
    tokens = [token for event in stored for token in memoryview(event.tokens).cast("I")]
    assert replica.matched(tokens, 64) == TierTokens(0, 128, None)
    assert replica.block_sizes == [(Tier.L1, 64)]

    replica.see(BlockRemoved([event.hashes[0] for event in stored], "CPU"))
    assert replica.matched(tokens, 64) == TierTokens(0, 0, None)


def test_offloaded_placeholders_are_found_through_the_gpu(replica: Replica) -> None:
    """Hashes without tokens count in host memory as far as the GPU's events named them."""
    replica.see(store([1, 2], [1, 2, 3, 4]))

    assert replica.see(BlockStored([1, 2, 77], None, b"", 0, "CPU"), BlockStored([78], None, b"", 0, "CPU")) == {
        "placeholder": 1
    }
    assert replica.matched([1, 2, 3, 4]) == TierTokens(4, 4, None)
    replica.see(BlockRemoved([1], "CPU"))
    assert replica.matched([1, 2, 3, 4]) == TierTokens(4, 0, None)


def test_offloaded_blocks_are_what_the_gpus_events_named(replica: Replica) -> None:
    """vLLM's offloading tells tokens and no extra keys: a salted block is not taken for anybody's, nor an image's."""
    replica.see(
        store([1, 2], [1, 2, 3, 4])._replace(extra_keys=[["s"], None]),
        store([5], [5, 6], parent=2)._replace(extra_keys=[[["image", 0]]]),
    )

    dropped = replica.see(store([1, 2], [1, 2, 3, 4], medium="CPU"), store([5], [5, 6], parent=2, medium="CPU"))

    assert dropped == {"placeholder": 1}
    assert replica.matched([1, 2, 3, 4]) == TierTokens(0, 0, None)
    salted = replica.index.match_now({2: chain([1, 2, 3, 4], salt="s")}, [KEY])[KEY]
    assert salted == TierTokens(4, 4, None)
    replica.see(BlockRemoved([2], "CPU"))
    assert replica.index.owned(KEY, Tier.L1) == 1


def test_offloaded_blocks_of_another_group_are_left_out(replica: Replica) -> None:
    """A hybrid model's groups share their hashes: a sliding window in host memory is no prefix."""
    replica.see(store([1], [1, 2])._replace(group=1))

    other = store([1], [], medium="CPU")._replace(block_size=0)
    dropped = replica.see(other._replace(group=0), other._replace(group=1, attention="sliding_window"))

    assert dropped == {"other_group": 1, "attention_kind": 1}
    assert replica.see(other._replace(group=1)) == {}
    assert replica.index.owned(KEY, Tier.L1) == 1


def test_a_second_clear_in_a_batch_is_also_about_memory_vllm_offloads_to(replica: Replica) -> None:
    """Its events do not say which of the two caches they mean; that of anybody else is not touched."""
    replica.see(store([1], [1, 2]), store([1], [1, 2], medium="CPU"), store([1], [1, 2], medium="STORAGE"))
    replica.see(AllBlocksCleared())
    assert [replica.index.owned(KEY, tier) for tier in Tier] == [0, 1, 1]

    replica.see(AllBlocksCleared(), AllBlocksCleared())
    assert [replica.index.owned(KEY, tier) for tier in Tier] == [0, 0, 1]

    other = Replica()
    other.see(store([1], [1, 2]), store([77], [1, 2], medium="CPU"))
    other.see(AllBlocksCleared(), AllBlocksCleared())
    assert [other.index.owned(KEY, tier) for tier in Tier] == [0, 1, 0]


def test_what_another_hosts_memory_loses_is_not_lost_here(replica: Replica) -> None:
    """Neither what it stores nor what it removes is this replica's."""
    replica.see(store([1], [1, 2], medium="CPU"))

    assert replica.see(BlockRemoved([1], "CPU", locality="REMOTE")) == {"remote": 1}
    assert replica.index.owned(KEY, Tier.L1) == 1
    assert replica.see(BlockRemoved([1], "CPU", locality="LOCAL")) == {}
    assert replica.index.owned(KEY, Tier.L1) == 0


def test_what_is_left_out_is_counted_by_reason(replica: Replica) -> None:
    """Nothing of it is credited, and the events around it are."""
    dropped = replica.see(
        store([1], [1, 2])._replace(group=0),
        store([2], [3, 4], parent=99),
        store([3], [5, 6], medium="MOON"),
        store([4], [5, 6], medium="CPU")._replace(locality="REMOTE"),
        BlockRemoved([98], "GPU"),
        BlockRemoved([1], "GPU", group=1),
        store([5], [7, 8], parent=1),
    )

    assert dropped == {"orphan": 1, "unknown_medium": 1, "remote": 1, "unknown_block": 1, "other_group": 1}
    assert replica.matched([1, 2, 7, 8]).l0 == 4
    assert replica.index.block_owners() == 2


def test_salts_and_loras_share_nothing(replica: Replica) -> None:
    """The same tokens under a salt or a LoRA are other blocks."""
    replica.see(
        store([1], [1, 2])._replace(extra_keys=[["s"]]),
        store([2], [1, 2])._replace(lora_name="ad", lora_id=1, extra_keys=[["ad"]]),
    )

    assert replica.matched([1, 2]).l0 == 0
    for lora, salt in (("", "s"), ("ad", "")):
        own = chain([1, 2], lora=lora, salt=salt)
        assert replica.index.match_now({2: own}, [KEY])[KEY].l0 == 2


def test_a_hybrid_models_removals_count_for_the_indexed_group(replica: Replica) -> None:
    """Both groups use the same hashes; the sliding window's evictions change nothing."""
    for name in ("15_hybrid_groups_0", "15_hybrid_groups_1"):
        assert dict(replica.applier.apply(decode(frames.payload(name)))) == {"attention_kind": 1}
    hash_ = 15987428697029190687
    assert replica.index.owned(KEY, Tier.L0) == 9

    assert replica.see(BlockRemoved([hash_], "GPU", group=0)) == {"other_group": 1}
    assert replica.index.owned(KEY, Tier.L0) == 9
    replica.see(BlockRemoved([hash_], "GPU", group=1))
    assert replica.index.owned(KEY, Tier.L0) == 8


def test_captured_evictions_come_before_the_store_they_made_room_for(replica: Replica) -> None:
    """A whole captured batch of evictions and a store leaves exactly the stored blocks."""
    dropped = dict(replica.applier.apply(decode(frames.payload("05_evict_then_stored"))))

    assert set(dropped) == {"unknown_block"}
    assert replica.index.owned(KEY, Tier.L0) > 0


def test_an_exported_state_is_gone_on_from_in_every_tier(replica: Replica) -> None:
    """Copies, ancestry, placeholders and block sizes: what follows means the same there as here."""
    replica.see(
        store([1, 2], [1, 2, 3, 4]),
        store([3], [5, 6], parent=2),
        store([3], [5, 6], parent=2),
        store([1], [1, 2], medium="CPU"),
        BlockStored([2], None, b"", 0, "STORAGE"),
    )
    other = Replica(replica.applier.export())

    assert other.block_sizes == [(Tier.L0, 2), (Tier.L1, 2), (Tier.L2, 2)]
    for follower in (replica, other):
        assert follower.applier.owned() == {
            Tier.L0: chain([1, 2, 3, 4, 5, 6]),
            Tier.L1: chain([1, 2]),
            Tier.L2: [chain([1, 2, 3, 4])[1]],
        }
        assert follower.see(BlockRemoved([3], "GPU"), store([4], [7, 8], parent=3), BlockRemoved([1], "CPU")) == {}
        assert follower.matched([1, 2, 3, 4, 5, 6, 7, 8]) == TierTokens(8, 0, 0)
    assert replica.applier.export() == other.applier.export()


def test_what_is_owned_is_a_copy(replica: Replica) -> None:
    """It may be read in pieces while events go on."""
    replica.see(store([1], [1, 2]))
    owned, state = replica.applier.owned(), replica.applier.export()

    replica.see(store([2], [3, 4]))

    assert owned == {Tier.L0: chain([1, 2])}
    assert len(state[Tier.L0].resolver.own) == len(state[Tier.L0].ownership.copies) == 1


def test_other_tiers_keep_what_they_hold_over_a_reset(replica: Replica) -> None:
    """It is the GPU's."""
    replica.see(store([1], [1, 2], medium="CPU"))
    replica.applier.clear_gpu()

    assert replica.matched([1, 2]) == TierTokens(0, 2)
