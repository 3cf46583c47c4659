"""DispatchListener: who must know what this process sends where, such as other gateways."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from gateway.fleet.inflight import InFlight
from gateway.fleet.prefill_sample import PrefillSample
from gateway.fleet.replica import Replica


class DispatchListener(Protocol):
    """Told synchronously, in order and at most once each; :meth:`ended` always comes. It must return at once."""

    def dispatched(self, replica: Replica, inflight: InFlight, block_size: int, chain: Sequence[int]) -> None:
        """A request was booked at ``replica``. ``chain``: own hashes of its full blocks; empty where not known.

        ``block_size``: tokens of one of them.
        """
        ...

    def first_byte(self, inflight: InFlight, sample: PrefillSample | None) -> None:
        """The first body byte of its answer came. ``sample``: what its prefill taught, if anything."""
        ...

    def ended(self, inflight: InFlight, kept: bool) -> None:
        """It is over. ``kept``: its blocks are expected there from now on, for want of events."""
        ...


class Nobody:
    """The listener of a gateway that is alone."""

    def dispatched(self, replica: Replica, inflight: InFlight, block_size: int, chain: Sequence[int]) -> None:
        """Not told."""

    def first_byte(self, inflight: InFlight, sample: PrefillSample | None) -> None:
        """Not told."""

    def ended(self, inflight: InFlight, kept: bool) -> None:
        """Not told."""
