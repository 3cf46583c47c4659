"""ApiKeys: who may ask. Knows nothing of what a key may do."""

from __future__ import annotations

import hmac
from collections.abc import Iterable, Sequence

from gateway.edge.headers import Header, header
from gateway.errors import Unauthorized


class ApiKeys:
    """Keys that clients must send as ``Authorization: Bearer``. None configured: everybody may ask."""

    def __init__(self, keys: Iterable[str]) -> None:
        self._keys = [key.encode() for key in keys]

    def __bool__(self) -> bool:
        return bool(self._keys)

    def check(self, headers: Sequence[Header]) -> None:
        """Raises ``Unauthorized``. Takes as long for a wrong key as for a right one."""
        if not self._keys:
            return
        scheme, _, token = header(headers, b"authorization").partition(b" ")
        token = token.strip()
        matches = [hmac.compare_digest(key, token) for key in self._keys]
        if scheme.lower() != b"bearer" or not any(matches):
            raise Unauthorized("Incorrect or missing API key.", code="invalid_api_key")
