"""Where to send a request: one file is one strategy.

The file's name is its name in the settings, its docstring its help, its dataclass fields its options. To add one,
add one file that ends in ``STRATEGY = TheClass``; nothing else changes, and the contract test picks it up.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from dataclasses import fields
from math import isfinite

from router_strategies._types import REASONS, Candidate, Choice, Cost, RouteRequest, Strategy

__all__ = [
    "REASONS",
    "Candidate",
    "Choice",
    "Cost",
    "RouteRequest",
    "Strategy",
    "available",
    "canonical",
    "describe",
    "load",
]


def available() -> tuple[str, ...]:
    """The names of all strategies, sorted."""
    return tuple(sorted(m.name for m in pkgutil.iter_modules(__path__) if not m.name.startswith("_")))


def canonical(name: str) -> str:
    """The strategy that ``name`` means: case, ``-``, ``_`` and spaces do not matter. Raises ``ValueError``."""
    squeezed = _squeeze(name)
    for known in available():
        if _squeeze(known) == squeezed:
            return known
    raise ValueError(f"no strategy is named {name!r}; there are {', '.join(available())}")


def describe(name: str) -> str:
    """A strategy's own help text."""
    return (importlib.import_module(f"{__name__}.{canonical(name)}").__doc__ or "").strip()


def load(name: str, options: Mapping[str, object] | None = None) -> Strategy:
    """Build a strategy. Raises ``ValueError`` for an unknown name, an unknown option or a wrong value."""
    known = canonical(name)
    cls = importlib.import_module(f"{__name__}.{known}").STRATEGY
    usual = {field.name: field.default for field in fields(cls) if field.init}
    for option, value in (options or {}).items():
        if option not in usual:
            raise ValueError(f"{known} has no option {option!r}; it has {', '.join(usual) or 'none'}")
        if isinstance(usual[option], float) and not _is_number(value):
            raise ValueError(f"{known}: {option} must be a number, not {value!r}")
    try:
        strategy: Strategy = cls(**(options or {}))
    except TypeError as error:
        raise ValueError(f"{known}: {error}") from error
    return strategy


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)


def _squeeze(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "").replace(" ", "")
