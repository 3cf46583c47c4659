"""RedisTarget: which Redis a URL means, and how to speak to it.

    redis://[user[:password]@]host[:port][/db]            rediss:// with TLS
    redis+cluster://[user[:password]@]host:port,...        rediss+cluster://
    redis+sentinel://[user[:password]@]host:port,.../name[/db]    rediss+sentinel://
    unix://[user[:password]@]/path/to/socket[?db=1]

Words in user, password, path and query are percent-encoded; an IPv6 host is in brackets. Options come in the query:
``db``, for TLS those of ``_TLS_OPTIONS``, for Sentinel its own ``sentinel_username`` and ``sentinel_password``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, Self
from urllib.parse import unquote

Form = Literal["plain", "cluster", "sentinel", "unix"]

_SCHEMES: Mapping[str, tuple[Form, bool]] = {
    "redis": ("plain", False),
    "rediss": ("plain", True),
    "redis+cluster": ("cluster", False),
    "rediss+cluster": ("cluster", True),
    "redis+sentinel": ("sentinel", False),
    "rediss+sentinel": ("sentinel", True),
    "unix": ("unix", False),
}
_TLS_OPTIONS = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile", "ssl_check_hostname", "ssl_cert_reqs")
_SENTINEL_OPTIONS = ("sentinel_username", "sentinel_password")
_CERT_REQS = ("none", "optional", "required")
_SWITCH = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
_PORT, _SENTINEL_PORT = 6379, 26379


class Host(NamedTuple):
    """``name`` is bare: no brackets around IPv6."""

    name: str
    port: int

    def __str__(self) -> str:
        return f"[{self.name}]:{self.port}" if ":" in self.name else f"{self.name}:{self.port}"


@dataclass(frozen=True, kw_only=True)
class TlsOptions:
    """Files are PEM. ``cert_reqs``: what is asked of the server's certificate: none, optional or required."""

    ca_certs: str | None = None
    certfile: str | None = None
    keyfile: str | None = None
    check_hostname: bool = True
    cert_reqs: str = "required"


@dataclass(frozen=True, kw_only=True)
class RedisTarget:
    """What a URL says. ``hosts`` are the sentinels for a Sentinel, some of the nodes for a cluster, none for unix."""

    scheme: str
    form: Form
    hosts: tuple[Host, ...] = ()
    path: str = ""
    master: str = ""
    db: int = 0
    username: str = ""
    password: str = field(default="", repr=False)
    sentinel_username: str = ""
    sentinel_password: str = field(default="", repr=False)
    tls: TlsOptions | None = None

    @classmethod
    def parse(cls, url: str, password: str = "") -> Self:
        """Raises ``ValueError`` that says what is wrong, and never shows a password.

        ``password`` is one that was given apart from the URL.
        """
        scheme, separator, rest = url.partition("://")
        if not separator or scheme not in _SCHEMES:
            raise ValueError(f"must begin with one of {', '.join(f'{name}://' for name in _SCHEMES)}")
        form, has_tls = _SCHEMES[scheme]
        if "#" in rest:
            raise ValueError("must have no '#': write %23 for one in a password")
        rest, _, query = rest.partition("?")
        options = _options(query, form, has_tls)
        credentials, at, place = ("", "", rest) if rest.startswith("/") else rest.rpartition("@")
        username, _, url_password = credentials.partition(":") if at else ("", "", "")
        target = cls(
            scheme=scheme,
            form=form,
            username=unquote(username),
            password=_one_password(unquote(url_password), password),
            sentinel_username=options.get("sentinel_username", ""),
            sentinel_password=options.get("sentinel_password", ""),
            tls=_tls(options) if has_tls else None,
        )
        return replace(target, **_place(place, form, options.get("db")))

    @property
    def shown(self) -> str:
        """The URL without passwords and options."""
        user = f"{self.username}@" if self.username else ""
        place = self.path if self.form == "unix" else ",".join(map(str, self.hosts))
        master = f"/{self.master}" if self.master else ""
        db = f"/{self.db}" if self.db and self.form != "unix" else ""
        return f"{self.scheme}://{user}{place}{master}{db}"


def _one_password(in_url: str, apart: str) -> str:
    if in_url and apart:
        raise ValueError("holds a password, and another one is set: choose one")
    return in_url or apart


def _options(query: str, form: Form, has_tls: bool) -> dict[str, str]:
    known = ("db", *(_TLS_OPTIONS if has_tls else ()), *(_SENTINEL_OPTIONS if form == "sentinel" else ()))
    options: dict[str, str] = {}
    for item in filter(None, query.split("&")):
        name, separator, value = item.partition("=")
        if name not in known:  # the name may be the rest of a password with a bare '?': not shown
            raise ValueError(f"has an option that is none of {', '.join(known)}")
        if not separator or not value or name in options:
            raise ValueError(f"option {name} must have one value")
        options[name] = unquote(value)
    return options


def _tls(options: Mapping[str, str]) -> TlsOptions:
    check_hostname = options.get("ssl_check_hostname", "true").lower()
    cert_reqs = options.get("ssl_cert_reqs", "required").lower()
    if check_hostname not in _SWITCH:
        raise ValueError("option ssl_check_hostname must be true or false")
    if cert_reqs not in _CERT_REQS:
        raise ValueError(f"option ssl_cert_reqs must be one of {', '.join(_CERT_REQS)}")
    if "ssl_keyfile" in options and "ssl_certfile" not in options:
        raise ValueError("option ssl_keyfile needs ssl_certfile")
    return TlsOptions(
        ca_certs=options.get("ssl_ca_certs"),
        certfile=options.get("ssl_certfile"),
        keyfile=options.get("ssl_keyfile"),
        check_hostname=_SWITCH[check_hostname] and cert_reqs != "none",
        cert_reqs=cert_reqs,
    )


def _place(place: str, form: Form, db_option: str | None) -> dict[str, Any]:
    """The fields that come from what stands after the ``@``."""
    if form == "unix":
        if not place.startswith("/"):
            raise ValueError("must have an absolute path: unix:///path/to/socket")
        return {"path": unquote(place), "db": _db(db_option or "")}
    hosts, *parts = place.split("/")
    parts = [unquote(part) for part in parts if part]
    found: dict[str, Any] = {"hosts": _hosts(hosts, form)}
    if form == "sentinel":
        if not parts:
            raise ValueError("must name the master: redis+sentinel://host:26379/name")
        found["master"] = parts.pop(0)
    if len(parts) > 1 or (parts and db_option is not None):
        raise ValueError("must have at most one database number")
    db = _db(parts[0] if parts else db_option or "")
    if form == "cluster" and db:
        raise ValueError("must have no database number: a cluster has only database 0")
    return {**found, "db": db}


def _hosts(text: str, form: Form) -> tuple[Host, ...]:
    default = _SENTINEL_PORT if form == "sentinel" else _PORT
    hosts = tuple(_host(item.strip(), default) for item in text.split(","))
    if form == "plain" and len(hosts) > 1:
        raise ValueError("must have one host; several are for redis+cluster:// and redis+sentinel://")
    return hosts


def _host(text: str, default_port: int) -> Host:
    matched = re.fullmatch(r"(\[[0-9A-Za-z:.%]+\]|[^\[\]:@\s]+)(?::(\d{1,5}))?", text)
    if matched is None:
        # Not shown: where a password has a bare '/' or '@', part of it stands here.
        raise ValueError(
            "must have host[:port], IPv6 in brackets, '/', '@', ':' and '?' of a password as %2F %40 %3A %3F"
        )
    name, port = matched.groups()
    if port is not None and not 0 < int(port) <= 65535:
        raise ValueError("must have a port from 1 to 65535")
    return Host(unquote(name.strip("[]")), int(port) if port else default_port)


def _db(text: str) -> int:
    if text and not text.isdecimal():
        raise ValueError("must have a number as its database")
    return int(text or 0)
