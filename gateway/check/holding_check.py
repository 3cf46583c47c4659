"""Is what a replica is said to hold really there.

By counting: the index beside what events told, and both beside what its GPU can hold. And by trying: a prompt that it
is said to hold, sent once more, must be found.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

import zmq

from gateway.check.busyness import stays_busy
from gateway.check.knowledge import Knowledge
from gateway.check.replay_reader import read_replay
from gateway.check.replica_caller import CallFailed, ReplicaCaller
from gateway.check.verdict import Verdict, fine, skipped, wrong
from gateway.fleet.replica import Replica
from gateway.kv.events import BlockRemoved, BlockStored, KVEvent, decode
from gateway.kv.tiers import Tier
from gateway.prompt.blocks import TOKEN_BYTES

_CHECK = "holding"
_BATCHES_BACK = 400
_TRIED = 3
_MOST_TOKENS = 1024
_TIMEOUT_S = 3.0
_SURE = 0.8  # of a cache: what was stored last is there, whatever else needs room
_SURE_OF_LOST = 0.4  # the same where evictions are not told of: what is used again counts as young, too
_SLACK = 1.02, 8  # a share and a number of blocks by which counts may differ for a moment


class _Held(NamedTuple):
    """The prompt of blocks that are said to be held, and one token more."""

    ids: list[int]
    tokens: int  # that must be found


def excess_tokens(replica: Replica, knowledge: Knowledge) -> int:
    """By how many tokens it is said to hold more than fits; 0: it is not, or its size is not known."""
    stats, room = knowledge.stats(replica), replica.kv_tokens
    if stats is None or not room or not stats.l0_block_size:
        return 0
    owned = knowledge.events.indexer.owned_blocks(replica.key, Tier.L0) * stats.l0_block_size
    share, blocks = _SLACK
    return owned - room if owned > room * share + blocks * stats.l0_block_size else 0


def overfull(replica: Replica, knowledge: Knowledge) -> str:
    """The same in words; "": it is not."""
    excess, room = excess_tokens(replica, knowledge), replica.kv_tokens
    return f"said to hold {room + excess} tokens, has room for {room}" if excess else ""


async def check_holding(
    replica: Replica, knowledge: Knowledge, caller: ReplicaCaller, *, timeout_s: float = _TIMEOUT_S
) -> Verdict:
    """Sends up to three prompts that others sent before, as their tokens, to the replica that computed them.

    Where it is said to hold too much, either removals are not told of, or all was gone at once and that was not: then
    those are told of that follow. ``timeout_s``: for its replay.
    """
    if knowledge.stats(replica) is None:
        return skipped(_CHECK, replica.id, "its events are not followed here")
    if replica.report.prefix_caching is False:
        return skipped(_CHECK, replica.id, "it caches nothing")
    is_busy = await stays_busy(replica, knowledge.patience_s)
    excess, detail = excess_tokens(replica, knowledge), overfull(replica, knowledge)
    events = await _last_events(replica, knowledge, timeout_s) if excess or not is_busy else ()
    try:
        tried, lost = (0, 0) if is_busy else await _try(events, replica, knowledge, caller)
    except CallFailed as failure:
        return skipped(_CHECK, replica.id, str(failure))
    if 2 * lost > tried:  # any of them may be evicted, or computed anew, at this moment
        detail = f"{lost} of {tried} prompts that it should hold were not found"
        return wrong(_CHECK, replica.id, "restart_unnoticed", detail)
    if excess:
        name = "restart_unnoticed" if any(map(_is_removal, _last(events, excess))) else "removals_lost"
        return wrong(_CHECK, replica.id, name, detail)
    if not tried:
        return skipped(_CHECK, replica.id, "nothing that can be tried now")
    return fine(_CHECK, replica.id, f"{tried - lost} of {tried} prompts that it should hold were found")


async def _try(
    events: Sequence[KVEvent], replica: Replica, knowledge: Knowledge, caller: ReplicaCaller
) -> tuple[int, int]:
    """How many prompts were tried, and how many of them were not found at all. Raises :class:`CallFailed`.

    They are the oldest whose blocks are all said to be held, and so young that they would be even if no removal was
    ever told of: where it is said to hold too much, with room for much that was in use again. What was stored once more
    since is there whatever happened before that.
    """
    share = _SURE_OF_LOST if excess_tokens(replica, knowledge) else _SURE
    young = [event for event in _last(events, replica.kv_tokens * share) if isinstance(event, BlockStored)]
    times = Counter(event.hashes[0] for event in young if event.parent is None and event.hashes)
    candidates = (_held(event, replica, knowledge) for event in young if event.hashes and times[event.hashes[0]] == 1)
    tried = lost = 0
    for held in islice(filter(None, candidates), _TRIED):
        cached = (await caller.complete(replica, replica.key.namespace, held.ids)).cached
        if cached is None:
            return 0, 0
        tried += 1
        lost += not cached
    return tried, lost


async def _last_events(replica: Replica, knowledge: Knowledge, timeout_s: float) -> Sequence[KVEvent]:
    """As its replay tells them; none where it has none."""
    source, position = knowledge.events.followable.get(replica.key), knowledge.events.indexer.position(replica.key)
    if source is None or source.replay_endpoint is None or position is None or position.last < 0:
        return ()
    first = max(0, position.last - _BATCHES_BACK)
    try:
        replayed = await read_replay(source.replay_endpoint, first, most=_BATCHES_BACK, timeout_s=timeout_s)
    except zmq.ZMQError:
        return ()
    events = list[KVEvent]()
    for batch in replayed.batches:
        events += decode(batch.payload).events
        await asyncio.sleep(0)  # large ones take a quarter of a second, all together
    return events


def _last(events: Sequence[KVEvent], most_tokens: float) -> Sequence[KVEvent]:
    """The last of them that together stored so many tokens, all where that is 0; the oldest first."""
    tokens, last = 0, list[KVEvent]()
    for event in reversed(events):
        tokens += len(event.tokens) // TOKEN_BYTES if isinstance(event, BlockStored) else 0
        if most_tokens and tokens > most_tokens:
            break
        last.append(event)
    return last[::-1]


def _is_removal(event: KVEvent) -> bool:
    return isinstance(event, BlockRemoved)


def _held(event: BlockStored, replica: Replica, knowledge: Knowledge) -> _Held | None:
    """One that starts a prompt without salt, adapter or image, if all of it is said to be held."""
    is_plain = event.parent is None and event.lora_name is None and event.lora_id is None and event.extra_keys is None
    if not is_plain or not event.tokens or event.medium not in (None, "GPU") or event.locality is not None:
        return None
    size = knowledge.block_size(replica)
    if event.block_size != size:
        return None
    length = min(len(event.tokens), max(_MOST_TOKENS // size, 1) * size * TOKEN_BYTES)
    tokens = event.tokens[:length]
    if not all(knowledge.holds(replica, block) for block in knowledge.chain(replica, tokens)):
        return None
    ids = list(_unpacked(tokens))
    return _Held([*ids, ids[0]], len(ids))


def _unpacked(tokens: bytes) -> Iterator[int]:
    for start in range(0, len(tokens), TOKEN_BYTES):
        yield int.from_bytes(tokens[start : start + TOKEN_BYTES], "little")
