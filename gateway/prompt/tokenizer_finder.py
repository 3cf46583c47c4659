"""TokenizerFinder: where a model's tokenizer comes from, by the setting PREFIXWAY_TOKENIZER. Loads nothing.

The setting is ``auto``, or one place for all models, or ``model=place,...`` (a model not named there follows
``auto``). A place is a folder, a ``tokenizer.json``, or a name on the hub, perhaps pinned
(``name@revision``).

``auto`` tries the path that the replica gives as ``root`` in /v1/models, then, for root and model name where
they can be hub names, the local hub cache, then the hub.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple, Protocol

from gateway.prompt.tokenizer_files import TokenizerFiles, TokenizerNotFound
from gateway.prompt.tokenizer_hub import HubName


class Hub(Protocol):
    """See :class:`gateway.prompt.tokenizer_hub.TokenizerHub`."""

    def cached(self, name: HubName) -> Path: ...

    def download(self, name: HubName) -> Path: ...


class FoundTokenizer(NamedTuple):
    """``step``: which step found it: setting, root, hub_cache or download."""

    step: str
    files: TokenizerFiles


class TokenizerFinder:
    """Blocking: it reads the disk and may download. ``hub`` ``None``: only what lies on disk."""

    def __init__(self, spec: str, hub: Hub | None) -> None:
        self._places = _parse_spec(spec)
        self._hub = hub

    @property
    def stated(self) -> list[str]:
        """The models for which the setting names a place, whatever a replica says; ``""``: all others."""
        return [model for model, place in self._places.items() if place != "auto"]

    def find(self, model: str, root: str) -> FoundTokenizer:
        """``root`` as /v1/models gives it. Raises :class:`TokenizerNotFound` with each step's reason."""
        reasons: list[str] = []
        for step, look in self._steps(model, root):
            try:
                return FoundTokenizer(step, TokenizerFiles.read(look()))
            except TokenizerNotFound as reason:
                reasons.append(f"{step}: {reason}")
        raise TokenizerNotFound("; ".join(reasons) or "nowhere to look: the model's root is no path and no hub name")

    def _steps(self, model: str, root: str) -> Iterator[tuple[str, Callable[[], Path]]]:
        place = self._places.get(model, self._places.get("", "auto"))
        if place != "auto":
            yield from self._stated(place)
            return
        if root and Path(root).is_absolute():
            yield "root", lambda: Path(root)
        yield from self._on_hub([name for text in dict.fromkeys((root, model)) if (name := _guessed_name(text))])

    def _stated(self, place: str) -> Iterator[tuple[str, Callable[[], Path]]]:
        """A path if it is one; else a name on the hub, if it can be."""
        name = HubName.parse(place)
        if name is None or Path(place).exists():
            yield "setting", lambda: Path(place)
        else:
            yield from self._on_hub([name])

    def _on_hub(self, names: list[HubName]) -> Iterator[tuple[str, Callable[[], Path]]]:
        hub = self._hub
        if hub is None:
            return
        for step, look in (("hub_cache", hub.cached), ("download", hub.download)):
            for name in names:
                yield step, partial(look, name)


def _guessed_name(text: str) -> HubName | None:
    """Only ``owner/name``: an alias such as ``llama`` would find somebody else's model."""
    return HubName.parse(text) if "/" in text else None


def _parse_spec(spec: str) -> dict[str, str]:
    """Place by model; ``""`` stands for all others. Raises ``ValueError``."""
    places: dict[str, str] = {}
    for entry in filter(None, (part.strip() for part in spec.split(","))):
        model, separator, place = entry.rpartition("=")
        if not place or (separator and not model) or model in places:
            raise ValueError(f"tokenizer setting: {entry!r} is not 'model=path', or names its model twice")
        places[model.strip()] = place.strip()
    return places
