"""Does the replay port answer, and with the batches that were published."""

from __future__ import annotations

import zmq
from xxhash import xxh3_64_intdigest

from gateway.check.knowledge import Knowledge
from gateway.check.replay_reader import Replayed, read_replay
from gateway.check.verdict import Verdict, fine, skipped, wrong
from gateway.fleet.replica import Replica
from gateway.kv.history import SequenceState

_CHECK = "replay"
_TRIES = 3  # the replica may restart just now, which is no fault
_TIMEOUT_S = 3.0


async def check_replay(replica: Replica, knowledge: Knowledge, *, timeout_s: float = _TIMEOUT_S) -> Verdict:
    """Asks for the batch that was applied last."""
    source = knowledge.events.followable.get(replica.key)
    if source is None or knowledge.stats(replica) is None:
        return skipped(_CHECK, replica.id, "its events are not followed here")
    endpoint = source.replay_endpoint
    if endpoint is None:
        return wrong(_CHECK, replica.id, "replay_absent", "it names no replay port")
    fault = ""
    for _ in range(_TRIES):
        key, before = replica.key, knowledge.events.indexer.position(replica.key)
        if before is None:
            continue
        try:
            replayed = await read_replay(endpoint, max(before.last, 0), most=1, timeout_s=timeout_s)
        except zmq.ZMQError as error:
            return wrong(_CHECK, replica.id, "replay_absent", f"{endpoint}: {error}")
        if not replayed.answered:
            return wrong(_CHECK, replica.id, "replay_absent", f"{endpoint} does not answer")
        if replica.key != key:
            continue
        fault = _fault(before, replayed)
        if not fault:
            return fine(_CHECK, replica.id, f"batch {before.last} as it was applied" if before.last >= 0 else "empty")
    if not fault:
        return skipped(_CHECK, replica.id, "it restarts again and again")
    return wrong(_CHECK, replica.id, "replay_stale", f"{endpoint}: {fault}")


def _fault(applied: SequenceState, replayed: Replayed) -> str:
    """What is not as it should be. Only the batch applied last can be told for sure."""
    if applied.last < 0 or not applied.recent:
        return ""
    if not replayed.batches:
        return f"nothing from batch {applied.last} on, which was applied"
    first = replayed.batches[0]
    if first.sequence != applied.last:
        return f"batch {first.sequence} where {applied.last} was asked for"
    return "" if xxh3_64_intdigest(first.payload) == applied.recent[-1] else f"another batch {applied.last}"
