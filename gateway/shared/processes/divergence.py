"""Divergence: where other processes are not as this one is. For people: nothing here changes what is done."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from gateway.shared.processes.member_record import MemberRecord
from gateway.shared.processes.members import Members

_log = logging.getLogger(__name__)

_Value = str | int | None

#: What is compared; ``None`` where a process does not tell.
_SUBJECTS: Mapping[str, Callable[[MemberRecord], _Value]] = {
    "strategy": lambda record: record.strategy or None,
    "orders": lambda record: record.orders_version if record.orders_version >= 0 else None,
    "secret": lambda record: record.secret_id or None,
    "version": lambda record: record.version or None,
}
_EXPECTED = ("version",)  # while an upgrade goes on


class Divergence:
    """Reads :class:`Members` when asked. Without news of the others there is none."""

    def __init__(self, members: Members, *, clock: Callable[[], float], lasting_s: float = 3.0) -> None:
        """``lasting_s``: an order on its way, or a process that has just started, is nothing to tell people of."""
        self._members = members
        self._clock = clock
        self._lasting_s = lasting_s
        self._since_s: dict[str, float] = {}
        self._told: dict[str, frozenset[str]] = {}

    def counts(self) -> dict[str, int]:
        """How many processes differ from this one, by what: strategy (in force), orders, secret, version."""
        return {what: len(self._differing(what)) for what in _SUBJECTS}

    def view(self) -> dict[str, dict[str, object]]:
        """What differs: our value, and by process id that of each process with another one."""
        return {
            what: {"here": value(self._members.mine), "elsewhere": differing}
            for what, value in _SUBJECTS.items()
            if (differing := self._differing(what))
        }

    def check(self) -> None:
        """Tell the log what began to differ and lasts, and what agrees again. Once for each change."""
        if not self._members.known:
            return
        now = self._clock()
        for what in _SUBJECTS:
            differing = frozenset(self._differing(what))
            if not differing:
                self._since_s.pop(what, None)
                if self._told.pop(what, None):
                    _log.info("all processes agree again: %s", what)
            elif now - self._since_s.setdefault(what, now) >= self._lasting_s and self._told.get(what) != differing:
                self._told[what] = differing
                self._tell(what, differing)

    def _tell(self, what: str, differing: frozenset[str]) -> None:
        others = self._members.others
        names = ", ".join(sorted(others[id_].name or id_ for id_ in differing))
        level = logging.INFO if what in _EXPECTED else logging.WARNING
        _log.log(
            level, "%d of %d other processes differ from this one: %s: %s", len(differing), len(others), what, names
        )

    def _differing(self, what: str) -> dict[str, _Value]:
        value = _SUBJECTS[what]
        mine = value(self._members.mine)
        if mine is None or not self._members.known:
            return {}
        told = {id_: value(record) for id_, record in self._members.others.items()}
        return {id_: theirs for id_, theirs in told.items() if theirs is not None and theirs != mine}
