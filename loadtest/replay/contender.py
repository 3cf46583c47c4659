"""Contenders: the strategies of a comparison, as the command line names them.

``NAME``, or ``NAME@option=value@option=value``, so that one strategy can be there several times with unlike options.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import router_strategies
from loadtest import rivals
from loadtest.replay.grid import Option

OURS, RIVALS, ALL = "ours", "rivals", "all"
RIVAL = "rival:"


class Contender(NamedTuple):
    """``label``: the name and the options that are not the usual ones."""

    label: str
    name: str
    options: tuple[tuple[str, Option], ...] = ()


def contenders(words: Sequence[str], options: Sequence[str] = ()) -> list[Contender]:
    """``words``: names, ``ours``, ``rivals``, ``all``; ``options``: ``NAME.option=value``, for each of that name.

    Raises ``ValueError`` for names, options and values that there are not.
    """
    common = _common(options)
    found = {found.label: found for word in words for name in _names(word) for found in [_contender(name, common)]}
    if unused := set(common) - {contender.name for contender in found.values()}:
        raise ValueError(f"options of {', '.join(sorted(unused))}, which is not compared")
    return list(found.values())


def known() -> tuple[str, ...]:
    """All names."""
    return (*router_strategies.available(), *(RIVAL + name for name in rivals.available()))


def _names(word: str) -> Sequence[str]:
    groups = {
        OURS: router_strategies.available(),
        RIVALS: tuple(RIVAL + name for name in rivals.available()),
        ALL: known(),
    }
    return groups.get(word, (word,))


def _contender(word: str, common: Mapping[str, Mapping[str, Option]]) -> Contender:
    name, *own = word.split("@")
    if not name.startswith(RIVAL):
        try:
            name = router_strategies.canonical(name)
        except ValueError:
            raise ValueError(f"no strategy is named {name!r}; there are {', '.join(known())}") from None
    options = {**common.get(name, {}), **dict(_assignment(text) for text in own)}
    _check(name, options)
    chosen = tuple(sorted(options.items()))
    return Contender("@".join([name, *(f"{key}={value}" for key, value in chosen)]), name, chosen)


def _check(name: str, options: Mapping[str, Option]) -> None:
    """By building it once: who has an option knows which values it may have."""
    try:
        if name.startswith(RIVAL):
            rivals.load(name.removeprefix(RIVAL), options)
        else:
            router_strategies.load(name, options)
    except TypeError as error:
        raise ValueError(f"{name}: {error}") from error


def _common(options: Sequence[str]) -> dict[str, dict[str, Option]]:
    common: dict[str, dict[str, Option]] = {}
    for text in options:
        key, value = _assignment(text)
        name, dot, option = key.rpartition(".")
        if not dot:
            raise ValueError(f"{text!r} is not STRATEGY.OPTION=VALUE")
        common.setdefault(name, {})[option] = value
    return common


def _assignment(text: str) -> tuple[str, Option]:
    key, equals, value = text.partition("=")
    if not (key and equals and value):
        raise ValueError(f"{text!r} is not OPTION=VALUE")
    return key, _value(value)


def _value(text: str) -> Option:
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
