"""Origin: where a server listens, from a URL that a person wrote."""

from __future__ import annotations

import re
from typing import NamedTuple, Self
from urllib.parse import urlsplit

_USER = re.compile(r"//[^/?#]*@")  # may hold a password: never shown
_HOST = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_.])?|[0-9A-Fa-f:.]+(%[A-Za-z0-9._-]+)?")

_PATH = re.compile(r"(/[A-Za-z0-9._~!$&'()*+,;=:@%-]*)*")  # RFC 3986, 3.3


class Origin(NamedTuple):
    """Scheme, host, port and the path in front of every route. ``host`` is bare: no brackets around IPv6."""

    tls: bool
    host: str
    port: int
    base_path: str = ""

    @classmethod
    def parse(cls, url: str) -> Self:
        """Read ``http(s)://host[:port][/base]``. Raises ``ValueError`` that says what is wrong with the URL."""
        shown = _USER.sub("//***@", url)
        text = url if "://" in url else f"http://{url}"
        parts = urlsplit(text)
        if parts.scheme not in ("http", "https"):
            raise ValueError(f"{shown!r}: the scheme must be http or https, not {parts.scheme!r}")
        if parts.username is not None or parts.query or parts.fragment:
            raise ValueError(f"{shown!r}: a replica's URL has no user, query or fragment")
        try:
            port = parts.port
        except ValueError:
            raise ValueError(f"{shown!r}: the port must be a number from 1 to 65535") from None
        if not parts.hostname or port == 0:
            raise ValueError(f"{shown!r}: a replica's URL needs a host, like http://10.0.0.7:8000")
        if not _HOST.fullmatch(parts.hostname):
            raise ValueError(f"{shown!r}: {parts.hostname!r} is no host name and no IP address")
        if not _PATH.fullmatch(parts.path):
            raise ValueError(f"{shown!r}: the path must be written as a URL has it, odd characters as %20")
        tls = parts.scheme == "https"
        return cls(tls, parts.hostname, port or (443 if tls else 80), parts.path.rstrip("/"))

    @property
    def netloc(self) -> str:
        """Host and port as a URL and a Host header write them, IPv6 in brackets."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    @property
    def url(self) -> str:
        return f"{'https' if self.tls else 'http'}://{self.netloc}{self.base_path}"
