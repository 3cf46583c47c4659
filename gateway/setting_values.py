"""The kinds of values that settings have, and how each is read from text.

A reader takes what a user wrote and raises ``ValueError`` that says what it may be.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import NamedTuple, TypeVar

import router_strategies
from gateway.client_keys import ClientKey, parse_client_keys
from gateway.redis_url import RedisTarget
from router_strategies._cost import Rates

_Number = TypeVar("_Number", int, float)

_MOST_WORKERS = 256
_NUMBER = re.compile(r"\d+(\.\d*)?|\.\d+", re.ASCII)
_CREDENTIAL = re.compile(r"[!-~]*")
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # a token (RFC 9110, 5.6.2)
_ROUTE = re.compile(r"/[!-~]*")
_DNS_FINDER = re.compile(r"(?P<name>[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_.])?)(:(?P<port>\d{1,5}))?")
_KUBERNETES_FINDER = re.compile(
    r"((?P<namespace>[a-z0-9]([a-z0-9-]*[a-z0-9])?)/)?"
    r"(?P<name>[^:\s/=,][^:\s=,]*={1,2}[^:\s/=,]+(,[^:\s/=,][^:\s=,]*={1,2}[^:\s/=,]+)*)(:(?P<port>[a-z0-9-]{1,15}))?"
)
_NO_FINDER = re.compile(r"(?!)")
_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://(?:[a-z0-9_.-]+|\[[0-9a-f:.]+\])(?::\d{1,5})?")


class Listen(NamedTuple):
    """Where to listen. ``host`` is bare: no brackets around IPv6. Port 0: any free one."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        return self.host in ("localhost", "::1") or self.host.startswith("127.")


class KvEvents(NamedTuple):
    """``mode``: auto (ask each replica), off, or fixed: every replica publishes at ``events`` and ``replay``."""

    mode: str
    events: str | None = None
    replay: str | None = None


class Finder(NamedTuple):
    """How replicas are found. ``kind``: static, dns or kubernetes.

    ``name``: in DNS, or the labels that pods must have. ``namespace``: of the pods; "": the gateway's own. ``port``: a
    number, or for Kubernetes the name of a container's port; "": SRV records tell, or for Kubernetes the port named
    ``http``, else 8000.
    """

    kind: str
    name: str = ""
    namespace: str = ""
    port: str = ""

    def __str__(self) -> str:
        """As it is written."""
        if self.kind == "static":
            return self.kind
        where = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.kind}:{where}" + (f":{self.port}" if self.port else "")


class Secret(str):
    """A string that is never shown."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "'***'" if self else "''"


class RedisUrl(Secret):
    """A URL that :meth:`RedisTarget.parse` takes, or empty."""

    __slots__ = ()

    @property
    def shown(self) -> str:
        """Without passwords."""
        return RedisTarget.parse(self).shown if self else ""


def read_text(value: str) -> str:
    return value


def read_listen(value: str) -> Listen:
    host, separator, port = value.rpartition(":")
    if not separator or not port.isdecimal() or int(port) > 65535:
        raise ValueError("must be host:port, like 0.0.0.0:8080")
    return Listen(host.strip("[]") or "0.0.0.0", int(port))  # noqa: S104 - an empty host means every interface


def read_switch(value: str) -> bool:
    words = {
        "true": True,
        "yes": True,
        "on": True,
        "1": True,
        "false": False,
        "no": False,
        "off": False,
        "0": False,
    }
    if value.lower() not in words:
        raise ValueError("must be true or false")
    return words[value.lower()]


def read_positive(value: str) -> float:
    number = float(value) if _NUMBER.fullmatch(value) else 0.0
    if number <= 0:
        raise ValueError("must be a number above 0")
    return number


def read_count(value: str) -> int:
    if not value.isdecimal() or int(value) == 0:
        raise ValueError("must be a whole number above 0")
    return int(value)


def read_amount(value: str) -> int:
    if not value.isdecimal():
        raise ValueError("must be a whole number, 0 or more")
    return int(value)


def read_duration(value: str) -> float:
    if not _NUMBER.fullmatch(value):
        raise ValueError("must be a number, 0 or more")
    return float(value)


def read_fraction(value: str) -> float:
    if not _NUMBER.fullmatch(value) or float(value) > 1:
        raise ValueError("must be a number from 0 to 1")
    return float(value)


def read_workers(value: str) -> int:
    if not value.isdecimal() or not 1 <= int(value) <= _MOST_WORKERS:
        raise ValueError(f"must be a whole number from 1 to {_MOST_WORKERS}")
    return int(value)


def read_limit(value: str) -> int | None:
    """``None``: no limit."""
    return None if value.lower() == "off" else _or_off(read_count, value)


def read_positive_or_off(value: str) -> float | None:
    """``None``: no limit."""
    return None if value.lower() == "off" else _or_off(read_positive, value)


def _or_off(read: Callable[[str], _Number], value: str) -> _Number:
    try:
        return read(value)
    except ValueError as error:
        raise ValueError(f"{error}, or off") from None


def read_one_of(*words: str) -> Callable[[str], str]:
    def read(value: str) -> str:
        if value.lower() not in words:
            raise ValueError(f"must be one of {', '.join(words)}")
        return value.lower()

    return read


def read_words(value: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in value.split(",") if word.strip())


def read_pairs(value: str) -> Mapping[str, str]:
    pairs = {}
    for word in read_words(value):
        name, separator, item = (part.strip() for part in word.partition("="))
        if not (name and separator and item):
            raise ValueError("must be a list like alias=model,other=model")
        if name in pairs:
            raise ValueError(f"names {name!r} twice")
        pairs[name] = item
    return pairs


def read_aliases(value: str) -> Mapping[str, str]:
    """Pairs, each to a model's own name."""
    pairs = read_pairs(value)
    for alias, model in pairs.items():
        if model in pairs:
            raise ValueError(f"{alias!r} stands for {model!r}, which is an alias itself: name the model")
    return pairs


def read_header_names(value: str) -> tuple[str, ...]:
    return _each_like(_HEADER_NAME, value.lower(), "is no header's name, like x-session-id")


def read_strategies(value: str) -> tuple[str, ...]:
    """Names of strategies, each once."""
    return tuple(dict.fromkeys(router_strategies.canonical(word) for word in read_words(value)))


def read_routes(value: str) -> tuple[str, ...]:
    """Paths as :class:`gateway.edge.routes.Routes` compares them: whole ones, without a query."""
    return _each_like(_ROUTE, value, "is no path like /reset_prefix_cache (no query, no wildcard)", without="?#*")


def read_origins(value: str) -> tuple[str, ...]:
    """Origins as browsers send them (RFC 6454, 6.2), or ``*``."""
    text = ",".join(word if word == "*" else word.lower().removesuffix("/") for word in read_words(value))
    return _each_like(_ORIGIN, text, "is no origin like https://chat.example.com[:port], nor *", also="*")


def read_credential(value: str) -> Secret:
    """What is sent, or compared with what was sent, in a header. The fault does not repeat it."""
    if not _CREDENTIAL.fullmatch(value):
        raise ValueError("must be visible ASCII characters, without spaces")
    return Secret(value)


def _each_like(
    pattern: re.Pattern[str], value: str, fault: str, *, without: str = "", also: str = ""
) -> tuple[str, ...]:
    words = read_words(value)
    for word in words:
        if word != also and (not pattern.fullmatch(word) or any(char in word for char in without)):
            raise ValueError(f"{word!r} {fault}")
    return words


def read_api_keys(value: str) -> tuple[ClientKey, ...]:
    keys = parse_client_keys(value)
    if value and not keys:
        raise ValueError("has no key")
    return keys


def read_json_object(value: str) -> Mapping[str, object]:
    try:
        options = json.loads(value)
    except ValueError as error:
        raise ValueError(f"must be a JSON object: {error}") from error
    if not isinstance(options, dict):
        raise ValueError("must be a JSON object")
    return options


def read_rates(value: str) -> Mapping[str, float]:
    """Fields of :class:`router_strategies._cost.Rates`, but for what is only learned."""
    names = [field.name for field in fields(Rates) if field.name != "calibration"]
    rates = {}
    for name, number in read_json_object(value).items():
        if name not in names:
            raise ValueError(f"has no {name!r}; there are {', '.join(names)}")
        if isinstance(number, bool) or not isinstance(number, int | float) or not 1e-9 <= number <= 1e12:
            raise ValueError(f"{name} must be a number above 0")
        rates[name] = float(number)
    return rates


def read_optional_path(value: str) -> Path | None:
    return Path(value) if value else None


def read_redis_url(value: str) -> RedisUrl:
    if value:
        RedisTarget.parse(value)
    return RedisUrl(value)


def read_finder(value: str) -> Finder:
    kind, _, rest = value.partition(":")
    kind = kind.lower()
    if kind == "static" and not rest:
        return Finder(kind)
    match = {"dns": _DNS_FINDER, "kubernetes": _KUBERNETES_FINDER}.get(kind, _NO_FINDER).fullmatch(rest)
    if match is None or not _is_port(match["port"] or "http"):
        raise ValueError("must be static, dns:name[:port], or kubernetes:[namespace/]label=value[,...][:port]")
    return Finder(kind, match["name"], match.groupdict().get("namespace") or "", match["port"] or "")


def _is_port(text: str) -> bool:
    """A number of one, or a name (RFC 6335, 5.1)."""
    return int(text) in range(1, 65_536) if text.isdecimal() else any(char.isalpha() for char in text)


def read_kv_events(value: str) -> KvEvents:
    if value.lower() in ("auto", "off"):
        return KvEvents(value.lower())
    events, _, rest = value.partition(",")
    replay = rest.removeprefix("replay=") if rest else None
    for endpoint in (events, replay):
        if endpoint is not None and not endpoint.startswith(("tcp://", "ipc://")):
            raise ValueError("must be auto, off, or tcp://{host}:5557,replay=tcp://{host}:5657")
    return KvEvents("fixed", events, replay)
