"""Rivals: how other gateways choose, from their published formulas; only for comparison, never offered by ours.

One file is one rival, or a family of them: each ends with ``RIVALS``, a mapping of names to classes. Each states its
source, and what of it is simplified. Loads are exact and known at once here: what a rival gets wrong is its formula.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from dataclasses import fields

from loadtest.rivals._types import Pick, Rival, RivalRequest, View

__all__ = ["Pick", "Rival", "RivalRequest", "View", "available", "load"]


def available() -> tuple[str, ...]:
    """The names of all rivals, sorted."""
    return tuple(sorted(_classes()))


def load(name: str, options: Mapping[str, object] | None = None) -> Rival:
    """Build a rival with its published defaults. Raises ``ValueError`` for an unknown name or option."""
    classes = _classes()
    if name not in classes:
        raise ValueError(f"no rival is named {name!r}; there are {', '.join(sorted(classes))}")
    cls = classes[name]
    known = [item.name for item in fields(cls) if item.init]  # type: ignore[arg-type]
    if unknown := set(options or {}) - set(known):
        raise ValueError(f"{name} has no option {', '.join(sorted(unknown))}; it has {', '.join(known)}")
    return cls(**(options or {}))


def _classes() -> dict[str, type[Rival]]:
    modules = (module.name for module in pkgutil.iter_modules(__path__) if not module.name.startswith("_"))
    return {
        name: cls for module in modules for name, cls in importlib.import_module(f"{__name__}.{module}").RIVALS.items()
    }
