"""EpochOpening: a new epoch on its way: a snapshot, taken when its turn comes, pushed in pieces, then registered."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from gateway.shared.link.script import Command

TakeSnapshot = Callable[[], Iterator[list[Command]]]


class EpochOpening:
    """``why``: the reason for it, as a metric label."""

    def __init__(self, epoch: int, why: str) -> None:
        self.epoch = epoch
        self.why = why
        self._commands: Iterator[list[Command]] | None = None
        self._piece: list[Command] = []

    def __repr__(self) -> str:
        return f"<EpochOpening {self.epoch}: {self.why}>"

    @property
    def has_begun(self) -> bool:
        """Whether its snapshot was taken: what happens from then on comes on top of it."""
        return self._commands is not None

    def next_piece(self, take_snapshot: TakeSnapshot) -> list[Command]:
        """Commands of one pipeline, the same ones until :meth:`sent`; none: it is through."""
        if self._commands is None:
            self._commands = take_snapshot()
        self._piece = self._piece or next(self._commands, [])
        return self._piece

    def sent(self) -> None:
        """The piece was carried out."""
        self._piece = []
