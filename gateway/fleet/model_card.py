"""ModelCard: one entry of a server's /v1/models."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Self


@dataclass(frozen=True, slots=True)
class ModelCard:
    """``fields`` is the entry as the server gave it. A LoRA adapter has a ``parent``; a base model has none."""

    id: str
    root: str
    parent: str | None
    fields: Mapping[str, object]

    @classmethod
    def parse(cls, entry: object) -> Self | None:
        """An entry of ``data``; ``None`` if it has no usable id."""
        if not isinstance(entry, dict) or not _is_name(entry.get("id")):
            return None
        root, parent = entry.get("root"), entry.get("parent")
        return cls(
            id=entry["id"],
            root=root if isinstance(root, str) else entry["id"],
            parent=parent if isinstance(parent, str) else None,
            fields=entry,
        )


def _is_name(value: object) -> bool:
    """Text that can be sent on: JSON can carry halves of characters, UTF-8 cannot."""
    return isinstance(value, str) and value != "" and not any("\ud800" <= character <= "\udfff" for character in value)


def parse_models(answer: object) -> tuple[ModelCard, ...]:
    """The cards in a /v1/models answer, in its order; empty if it is not one."""
    entries = answer.get("data") if isinstance(answer, dict) else None
    cards = (ModelCard.parse(entry) for entry in entries) if isinstance(entries, list) else ()
    return tuple(card for card in cards if card is not None)


def base_card(cards: Iterable[ModelCard]) -> ModelCard | None:
    """The base model among a server's cards. Of several names for it the first in the alphabet: order may differ."""
    return min((card for card in cards if card.parent is None), key=lambda card: card.id, default=None)
