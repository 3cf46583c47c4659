"""OrderDesk: takes orders from people, checks them, and tells what is in force."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from datetime import UTC, datetime
from uuid import uuid4

import msgspec

from gateway.errors import BadRequest, ServerNotFound
from gateway.shared.orders.order import DRAIN, STRATEGY, Order
from gateway.shared.orders.orders import Orders
from router_strategies import available, canonical

_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_LONGEST_AUTHOR = 200
_MOST_NAMED = 20
_LAST_S = datetime.max.replace(tzinfo=UTC).timestamp() - 1


class OrderDesk:
    """Its answers are JSON objects. Every order has an author and, for one that is sent several times, an id."""

    def __init__(
        self,
        orders: Orders,
        *,
        servers: Callable[[], Collection[str]],
        strategy: Callable[[], str],
        configured: str,
        wall_clock: Callable[[], float],
    ) -> None:
        """``servers``: the ids of those there are now. ``strategy``: in force. ``wall_clock``: Unix seconds."""
        self._orders = orders
        self._servers = servers
        self._strategy = strategy
        self._configured = configured
        self._wall_clock = wall_clock

    def orders(self) -> dict[str, object]:
        """All that are in force, in the order they were given."""
        book = self._orders.book
        return {
            "scope": self._orders.scope,
            "version": book.version,
            "orders": [_shown(order) for order in book.in_force()],
        }

    # the strategy

    def strategy(self) -> dict[str, object]:
        order = self._orders.book.get(STRATEGY)
        return {
            "strategy": self._strategy(),
            "configured": self._configured,
            "order": None if order is None else _shown(order),
            "scope": self._orders.scope,
            "strategies": list(available()),
        }

    async def set_strategy(self, name: str, author: str, id_: str) -> dict[str, object]:
        try:
            known = canonical(name)
        except ValueError as error:
            raise BadRequest(f"{error}.", param="name", code="strategy_not_found") from error
        return await self._give(Order(STRATEGY, value=known), author, id_)

    async def clear_strategy(self, author: str, id_: str) -> dict[str, object]:
        """Back to the configured one."""
        return await self._give(Order(STRATEGY, cleared=True), author, id_)

    # servers

    async def drain(self, server: str, author: str, id_: str) -> dict[str, object]:
        """No new requests for a server, until :meth:`undrain`. What it is answering it finishes."""
        known = self._servers()
        if server not in known:
            raise _not_found(server, known)
        return await self._give(Order(DRAIN, server), author, id_)

    async def undrain(self, server: str, author: str, id_: str) -> dict[str, object]:
        """Also of a server that is no longer there."""
        known = {*self._servers(), *(order.target for order in self._orders.book.in_force(DRAIN))}
        if server not in known:
            raise _not_found(server, known)
        return await self._give(Order(DRAIN, server, cleared=True), author, id_)

    async def _give(self, what: Order, author: str, id_: str) -> dict[str, object]:
        if id_ and not _ID.fullmatch(id_):
            raise BadRequest("An id is 1 to 64 letters, digits, - and _.", param="id")
        order = msgspec.structs.replace(
            what,
            author=_one_line(author) or "unknown",
            at_s=round(self._wall_clock(), 3),
            id=id_ or uuid4().hex,
        )
        given = await self._orders.give(order)
        return {"scope": self._orders.scope, "strategy": self._strategy(), "order": _shown(given)}


def _one_line(author: str) -> str:
    """As it can be printed anywhere."""
    return "".join(letter if letter.isprintable() else " " for letter in author)[:_LONGEST_AUTHOR].strip()


def _shown(order: Order) -> dict[str, object]:
    at_s = min(max(order.at_s, 0.0), _LAST_S)
    return {
        "kind": order.kind,
        "target": order.target,
        "value": order.value,
        "cleared": order.cleared,
        "author": order.author,
        "at": datetime.fromtimestamp(at_s, UTC).isoformat(timespec="seconds"),
        "id": order.id,
        "version": order.version,
    }


def _not_found(server: str, known: Collection[str]) -> ServerNotFound:
    names = sorted(known)
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    there = f"there are {', '.join(names[:_MOST_NAMED])}{more}" if names else "there is none"
    return ServerNotFound(f"No server has the id {server!r}; {there}.", param="server", code="server_not_found")
