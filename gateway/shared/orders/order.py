"""Order: something an operator said that holds until it is cleared. Which strategy; that a server takes no requests."""

from __future__ import annotations

from typing import Self

import msgspec

#: Kinds of orders. A process keeps and passes on those it does not know.
STRATEGY = "strategy"
DRAIN = "drain"


class Order(msgspec.Struct, frozen=True, omit_defaults=True):
    """``id`` is the sender's: the same order given to several processes is one. Fields of newer ones are ignored.

    What was cleared stays as such, so that a process that heard of it late cannot bring it back.
    """

    kind: str
    target: str = ""  # a server's id; none for the strategy
    value: str = ""  # the strategy's name
    cleared: bool = False
    author: str = ""
    at_s: float = 0.0  # Unix seconds
    id: str = ""  # letters, digits, - and _
    version: int = 0  # 1.. in the order they were given

    @property
    def field(self) -> str:
        """What it is about: of several orders with the same one the latest holds."""
        return f"{self.kind}/{self.target}"

    @property
    def rank(self) -> tuple[int, bytes]:
        """The later order has the higher one. Versions are equal only where a failover lost some."""
        return self.version, self.id.encode()

    def says_the_same(self, other: Order) -> bool:
        """Whether both ask for the same."""
        return (self.field, self.value, self.cleared) == (other.field, other.value, other.cleared)

    def content(self) -> bytes:
        """JSON of all but version and id, which stand before it."""
        return msgspec.json.encode(msgspec.structs.replace(self, version=0, id=""))

    def head(self) -> bytes:
        """What scripts compare, and what an encoded order begins with."""
        return b"%d %s " % (self.version, self.id.encode())

    def encode(self) -> bytes:
        """``version id JSON``."""
        return self.head() + self.content()

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Raises ``ValueError``."""
        version, id_ = rank_of(data)
        try:
            order = msgspec.json.decode(data.split(b" ", 2)[2], type=cls)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise ValueError("unreadable order") from error
        return msgspec.structs.replace(order, version=version, id=id_.decode())


def rank_of(data: bytes) -> tuple[int, bytes]:
    """``Order.rank`` of an encoded order, even of one that is not readable otherwise. Raises ``ValueError``."""
    head = data.split(b" ", 2)
    if len(head) < 3 or not head[0].isdigit() or len(head[0]) > 14 or not head[1].isascii():  # 14: scripts count so far
        raise ValueError("no version and id")
    return int(head[0]), head[1]
