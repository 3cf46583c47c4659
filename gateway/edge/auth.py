"""ApiKeys: who asks. Which keys there are comes from elsewhere, and may change at any time."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from gateway.client_keys import ClientKey
from gateway.edge.fields import Header
from gateway.errors import Unauthorized

_NO_KEY = "You did not provide an API key. Send it as Authorization: Bearer, or as x-api-key."
_MALFORMED = "The API key must be sent as Authorization: Bearer and the key, or as x-api-key."
_TWO_KEYS = "The request carries two API keys that differ."
_WRONG_KEY = "Incorrect API key provided."


class Client(NamedTuple):
    """Who asked. ``receipt``: whether the answer's headers tell it which replica, and what was cached."""

    name: str
    receipt: bool


class ApiKeys:
    """Keys that clients must send, as ``Authorization: Bearer`` or ``x-api-key``: one, or the same one in both."""

    def __init__(self, keys: Iterable[ClientKey] = (), *, required: bool | None = None, receipt: bool = False) -> None:
        """``required``: whether nobody may ask without a key, also while there is none (default: if there are any).

        ``receipt``: whether clients see the receipt whose key does not say.
        """
        keys = tuple(keys)
        self._required = bool(keys) if required is None else required
        self._receipt = receipt
        # Keyed, so that the time a look-up takes tells nothing of the keys; only right ones are in it.
        self._secret = secrets.token_bytes(32)
        self._seen: dict[bytes, Client] = {}
        self._clients: list[tuple[bytes, Client]] = []
        self.replace(keys)

    def __bool__(self) -> bool:
        """Whether a key is required."""
        return self._required

    @property
    def names(self) -> list[str]:
        """Of the keys in force, for people; one may be there twice."""
        return [client.name for _, client in self._clients]

    def replace(self, keys: Iterable[ClientKey]) -> None:
        """From now on these and no others. None at all: nobody may ask, if a key is required."""
        self._seen.clear()
        self._clients = [
            (key.digest, Client(key.name, self._receipt if key.receipt is None else key.receipt)) for key in keys
        ]

    def check(self, headers: Sequence[Header]) -> Client | None:
        """Who asks; ``None`` if no key is required. Raises ``Unauthorized``."""
        if not self._required:
            return None
        key = _sent(headers)
        mark = hashlib.blake2b(key, key=self._secret, digest_size=16).digest()
        client = self._seen.get(mark)
        if client is None:
            client = self._seen[mark] = self._find(key)
        return client

    def _find(self, key: bytes) -> Client:
        """Takes as long for a wrong key as for a right one, whichever it is."""
        digest = hashlib.sha256(key).digest()
        found = [client for right, client in self._clients if hmac.compare_digest(right, digest)]
        if not found:
            raise Unauthorized(_WRONG_KEY, code="invalid_api_key")
        return found[0]


def _sent(headers: Sequence[Header]) -> bytes:
    """The key that was sent. Raises ``Unauthorized`` if there is none, or not one."""
    sent = None
    for name, value in headers:
        size = len(name)  # cheaper than comparing: hardly any other header is as long
        if size == 13 and name.lower() == b"authorization":
            key = _bearer(value)
        elif size == 9 and name.lower() == b"x-api-key":
            key = value.strip()
        else:
            continue
        if not key:
            raise Unauthorized(_MALFORMED, code="invalid_api_key")
        if sent is not None and sent != key:
            raise Unauthorized(_TWO_KEYS, code="invalid_api_key")
        sent = key
    if sent is None:
        raise Unauthorized(_NO_KEY, code="invalid_api_key")
    return sent


def _bearer(value: bytes) -> bytes:
    """The token after ``Bearer`` (RFC 6750, 2.1; the scheme without case); empty for anything else."""
    scheme, _, token = value.strip().partition(b" ")
    return token.strip() if scheme.lower() == b"bearer" else b""
