"""ServerSpec: a server as configuration or discovery names it."""

from __future__ import annotations

import re
from typing import NamedTuple, Self
from urllib.parse import parse_qsl

from gateway.fleet.event_source import EventSource, checked_endpoint, connectable
from gateway.fleet.origin import Origin

_ID = re.compile(r"[A-Za-z0-9._~:/@#+\[\]-]*")  # goes into headers, labels and the admin port's paths
_OPTIONS = ("events", "replay", "speed", "model")
_POD_UID = re.compile(r"(?<=@)([0-9a-f]{8})(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")


class ServerSpec(NamedTuple):
    """``events`` and ``replay`` are templates with ``{host}``; ``events`` is ``None`` where nothing was said.

    ``model``: what it must serve, else it is not the server that was meant; "": whatever it serves.
    """

    id: str
    origin: Origin
    speed: float = 1.0  # prefill rate relative to the other servers
    events: str | None = None
    replay: str | None = None
    model: str = ""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read ``[id=]url[?events=tcp://..&replay=tcp://..&speed=1.0]``. Raises ``ValueError`` naming the fault."""
        address, _, query = text.strip().partition("?")
        name, separator, url = address.partition("=")
        if not separator:
            name, url = "", address
        return cls.build(url, name, dict(parse_qsl(query, keep_blank_values=True)))

    @classmethod
    def build(cls, url: str, name: str, options: dict[str, str]) -> Self:
        """From the parts, as the replicas file gives them. Raises ``ValueError``."""
        origin = Origin.parse(url)
        for option in options:
            if option not in _OPTIONS:
                raise ValueError(f"{url!r}: no option {option!r}; a replica has {', '.join(_OPTIONS)}")
        if not _ID.fullmatch(name):
            raise ValueError(f"{name!r}: an id is made of letters, digits and ._~:/@#+[]-")
        if re.search(r"#\d+$", name):
            raise ValueError(f"{name!r}: an id must not end in '#' and a number: so its ranks are named")
        return cls(
            id=short_id(name) or origin.netloc + origin.base_path,
            origin=origin,
            speed=_speed(options.get("speed", "1")),
            events=checked_endpoint(options["events"]) if "events" in options else None,
            replay=checked_endpoint(options["replay"]) if "replay" in options else None,
            model=options.get("model", ""),
        )

    def event_source(self, rank: int) -> EventSource | None:
        """Where rank ``rank`` publishes, if that was said: both ports grow with the rank, as vLLM's do."""
        if self.events is None:
            return None
        replay = None if self.replay is None else _shifted(connectable(self.replay, self.origin.host), rank)
        return EventSource(_shifted(connectable(self.events, self.origin.host), rank), replay)


def short_id(name: str) -> str:
    """``name``, which may end in ``@`` and the UID of a pod: of that the first eight digits are kept.

    So a pod that follows another one under the same name is another server, and people can still read its id.
    """
    return _POD_UID.sub(r"\1", name)


def parse_servers(text: str) -> tuple[ServerSpec, ...]:
    """Read a comma list of servers. Raises ``ValueError`` for a bad one and for an id given twice."""
    specs = tuple(ServerSpec.parse(part) for part in text.split(",") if part.strip())
    return unique(specs)


def unique(specs: tuple[ServerSpec, ...]) -> tuple[ServerSpec, ...]:
    """The same specs. Raises ``ValueError`` if two share an id."""
    seen: set[str] = set()
    for spec in specs:
        if spec.id in seen:
            raise ValueError(f"two replicas are named {spec.id!r}; give them ids: id=url")
        seen.add(spec.id)
    return specs


def _speed(text: str) -> float:
    try:
        speed = float(text)
    except ValueError:
        raise ValueError(f"speed={text!r} is not a number") from None
    if not 0.001 <= speed <= 1000:
        raise ValueError(f"speed={text!r} must lie between 0.001 and 1000")
    return speed


def _shifted(endpoint: str, rank: int) -> str:
    if rank == 0:
        return endpoint
    base, separator, port = endpoint.rpartition(":")
    return f"{base}{separator}{int(port) + rank}" if port.isdecimal() else endpoint
