"""ResponseHomes: which server keeps a stored response. vLLM keeps it in the memory of the one that made it.

A request that reads such a response, ends it or goes on from it must reach that server; any other answers 404.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Protocol

from gateway.fleet.response_home import Home

_MAX_ID = 256  # characters; vLLM's own have 37, but a client may choose one
# The response object's id, its own or inside an event that brings the object. Before it come plain members at most, and
# it is a key, because inside a JSON string its quotes would be escaped.
_ID = rb'\{(?:[^{}\[\]"]|"(?:[^"\\]|\\.)*")*?"id"\s*:\s*"([^"\\]{1,%d})"' % _MAX_ID
_IN_OBJECT = re.compile(rb"\s*" + _ID)
_IN_EVENT = re.compile(rb'(?<!\\)"response"\s*:\s*' + _ID)


class Directory(Protocol):
    """What other gateways have learned, and are told."""

    async def find(self, response_id: str) -> Home | None:
        """``None`` if nobody knows, or says so in time."""
        ...

    def tell(self, response_id: str, home: Home) -> None:
        """Returns at once."""
        ...


class ResponseHomes:
    """Remembers the ``limit`` responses that were used last, each for ``ttl_s`` seconds since it was learned.

    ``directory``: who is asked for one that is not known here; ``None``: nobody. ``clock``: seconds, monotonic.
    """

    def __init__(
        self,
        directory: Directory | None = None,
        *,
        clock: Callable[[], float],
        ttl_s: float = 86_400.0,
        limit: int = 100_000,
    ) -> None:
        self._directory = directory
        self._clock = clock
        self._ttl_s = ttl_s
        self._limit = limit
        self._homes: dict[str, tuple[Home, float]] = {}  # in order of use; with when it is forgotten

    def __repr__(self) -> str:
        return f"<ResponseHomes of {len(self._homes)} responses>"

    def known(self, response_id: str) -> Home | None:
        """As far as this process knows; ``None``: it does not."""
        kept = self._homes.pop(response_id, None)
        if kept is None or kept[1] <= self._clock():
            return None
        self._homes[response_id] = kept
        return kept[0]

    def must_ask(self, response_id: str) -> bool:
        """Whether :meth:`find` may know more than :meth:`known`."""
        return self._directory is not None and self.known(response_id) is None

    async def find(self, response_id: str) -> Home | None:
        """As :meth:`known`, and others are asked. What they know is known from then on."""
        home = self.known(response_id)
        if home is not None or self._directory is None:
            return home
        home = await self._directory.find(response_id)
        if home is not None:
            self._keep(response_id, home)
        return home

    def learned(self, response_id: str, home: Home) -> None:
        """An answer of that server brought a response of this id."""
        self._keep(response_id, home)
        if self._directory is not None:
            self._directory.tell(response_id, home)

    def _keep(self, response_id: str, home: Home) -> None:
        self._homes.pop(response_id, None)
        self._homes[response_id] = home, self._clock() + self._ttl_s
        if len(self._homes) > self._limit:
            del self._homes[next(iter(self._homes))]


def response_id_in(answer: bytes) -> str:
    """The id of the response in the first bytes of an answer of /v1/responses, plain or a stream; "": not found.

    It is in the first event of a stream (``response.created``), and the first member of vLLM's plain answers.
    """
    found = _IN_OBJECT.match(answer) or _IN_EVENT.search(answer)
    if found is None:
        return ""
    try:
        return found[1].decode()
    except UnicodeDecodeError:
        return ""
