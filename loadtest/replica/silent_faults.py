"""SilentFaults: what may be wrong with a replica although every request is answered well.

Each makes a router that trusts the replica believe what is not so. They begin and end at any time, by setting an
attribute, or by JSON (:meth:`SilentFaults.apply`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from loadtest.replica.block_cache import CacheScope, extra_keys
from loadtest.replica.kv_events import AllBlocksCleared, BlockRemoved, BlockStored, KVEvent


@dataclass(slots=True)
class SilentFaults:
    """The default of each is: nothing is wrong."""

    template_preamble: str = ""  # chats are rendered with this before them, as another template does
    shifts_tokens: bool = False  # every token is the next one of the vocabulary: another tokenizer, of equal counts
    splits_tokens: bool = False  # words are cut into letters: another tokenizer, of other counts
    ignores_salt: bool = False
    caches: bool = True  # False: prefix caching is off, and /metrics says so
    tells_cached_tokens: bool = True  # False: no prompt_tokens_details in usage
    claimed_block_size: int = 0  # what /metrics says; 0: the truth
    hides_metrics: bool = False  # /metrics is there and says nothing of the engine
    mutes_events: bool = False  # none is published, and no sequence number is used
    drops_extra_keys: bool = False  # of stored blocks, as publishers did before there were any
    lora_of_events: str = ""  # stored blocks of any adapter carry the name of this one
    drops_removals: bool = False
    doubles_removals: bool = False
    delays_events_s: float = 0.0
    lists_events_of: tuple[str, str | None] | None = None  # event and replay endpoints of somebody else

    def apply(self, cues: Mapping[str, Any]) -> None:
        """Set attributes by their names. Raises ``ValueError``, and then sets none."""
        unknown = cues.keys() - {field.name for field in fields(self)}
        if unknown:
            raise ValueError(f"no such silent fault: {', '.join(sorted(unknown))}")
        for name, value in cues.items():
            setattr(self, name, tuple(value) if isinstance(value, list) else value)

    def published(self, events: Sequence[KVEvent]) -> list[KVEvent]:
        """What is told of ``events``."""
        return [] if self.mutes_events else [told for event in events for told in self._told(event)]

    def _told(self, event: KVEvent) -> list[KVEvent]:
        if isinstance(event, BlockRemoved):
            return [] if self.drops_removals else [event] * (2 if self.doubles_removals else 1)
        if isinstance(event, AllBlocksCleared):
            return [event]
        return [self._told_stored(event)]

    def _told_stored(self, event: BlockStored) -> BlockStored:
        if self.lora_of_events and event.lora_name:
            event = _of_lora(event, self.lora_of_events)
        if self.drops_extra_keys:
            return replace(event, extra_keys=(None,) * len(event.block_hashes))
        return event


def _of_lora(event: BlockStored, lora: str) -> BlockStored:
    """The same blocks under another adapter's name."""
    of_lora = extra_keys(CacheScope(lora=lora), first=False)
    rest = tuple(keys and (*(of_lora or ()), *keys[1:]) for keys in event.extra_keys)
    return replace(event, lora_name=lora, extra_keys=rest)
