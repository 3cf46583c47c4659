"""Peers: the other gateways, by what they tell of their requests.

Whoever was not heard for a while is gone, and its requests with it: it tells them all every second. A message that
comes late or twice is ignored, one that was missed is made good by the next sync.
"""

from __future__ import annotations

import logging
from collections import Counter

from msgspec.structs import astuple

from gateway.fleet.prefill_sample import PrefillSample
from gateway.shared.load.load_messages import Dispatched, Ended, Envelope, FirstByte, Left, Sync, decode
from gateway.shared.load.peer_requests import Books, PeerRequests
from gateway.shared.processes.hash_secret import HashSecret

_MOST_PEERS = 256

_log = logging.getLogger(__name__)


class _Peer:
    __slots__ = ("counter", "heard_s", "requests")

    def __init__(self, counter: int, requests: PeerRequests) -> None:
        self.counter = counter  # of the last envelope
        self.heard_s = 0.0
        self.requests = requests


class Peers:
    """``counts``: envelopes ``received`` and ``missed``; ``unreadable`` envelopes and records; ``refused`` ones of
    more processes than there may be.
    """

    def __init__(self, books: Books, *, process_id: str, secret: HashSecret) -> None:
        """``process_id``: our own, whose messages are no news."""
        self._books = books
        self._process_id = process_id
        self._secret = secret
        self._peers: dict[str, _Peer] = {}
        self.counts: Counter[str] = Counter(received=0, missed=0, unreadable=0, refused=0)

    def __len__(self) -> int:
        return len(self._peers)

    @property
    def inflight(self) -> int:
        """Requests that peers have, as far as they are booked here."""
        return sum(len(peer.requests) for peer in self._peers.values())

    def received(self, payload: bytes, now: float) -> None:
        """A message came, of whomever."""
        try:
            envelope = decode(payload)
        except ValueError:
            self.counts["unreadable"] += 1
            return
        if envelope.process_id == self._process_id:
            return
        peer = self._peer(envelope)
        if peer is not None and envelope.counter > peer.counter:
            self.counts["received"] += 1
            self.counts["missed"] += envelope.counter - peer.counter - 1
            peer.counter = envelope.counter
            peer.heard_s = now
            if not self._apply(envelope, peer.requests, now):
                self._drop(envelope.process_id, now)

    def drop_silent(self, now: float, *, after_s: float) -> None:
        """Forget whoever was not heard for so long."""
        silent = [id_ for id_, peer in self._peers.items() if now - peer.heard_s > after_s]
        for process_id in silent:
            requests = self._drop(process_id, now)
            _log.info("a gateway fell silent: %d requests of it are off the books", requests)

    def drop_all(self, now: float) -> None:
        """Nobody is heard any more."""
        for process_id in list(self._peers):
            self._drop(process_id, now)

    def _peer(self, envelope: Envelope) -> _Peer | None:
        peer = self._peers.get(envelope.process_id)
        if peer is None and len(self._peers) < _MOST_PEERS:
            peer = self._peers[envelope.process_id] = _Peer(envelope.counter - 1, PeerRequests(self._books))
        if peer is None:
            self.counts["refused"] += 1
        return peer

    def _apply(self, envelope: Envelope, requests: PeerRequests, now: float) -> bool:
        """Whether the peer is still there afterwards."""
        same_secret = envelope.secret_id == self._secret.id
        for record in envelope.records():
            match record:
                case Dispatched():
                    requests.dispatched(record, now, same_secret=same_secret)
                case FirstByte():
                    requests.first_byte(record.number, now, _sample_of(record))
                case Ended(number=number, kept=kept):
                    requests.ended(number, now, kept=kept)
                case Sync():
                    requests.agree(record, now)
                case Left():
                    return False
                case None:
                    self.counts["unreadable"] += 1
        return True

    def _drop(self, process_id: str, now: float) -> int:
        peer = self._peers.pop(process_id)
        count = len(peer.requests)
        peer.requests.end_all(now)
        return count


def _sample_of(told: FirstByte) -> PrefillSample | None:
    return PrefillSample(*astuple(told)[1:]) if told.unscaled_s else None
