"""AdminClient: asks a running gateway's admin port, for commands."""

from __future__ import annotations

import json
from typing import Any, Self

import httpx

from gateway.settings import Settings


class AdminRefusedError(Exception):
    """The gateway answered: no. The text is its message."""


class AdminUnreachableError(Exception):
    """Nobody, or somebody else, answered there."""


class AdminClient:
    """``url`` as ``http://host:port`` or ``host:port``; ``token`` "" sends none. Close it, or use it in ``with``."""

    def __init__(self, url: str, token: str, *, timeout_s: float = 10.0) -> None:
        """Raises ``AdminRefusedError`` for a URL that is none."""
        self.url = (url if "://" in url else f"http://{url}").rstrip("/")
        headers = {"authorization": f"Bearer {token}"} if token else {}
        try:
            if httpx.URL(self.url).scheme not in ("http", "https") or not httpx.URL(self.url).host:
                raise httpx.InvalidURL("no http or https URL with a host")
        except httpx.InvalidURL as error:
            raise AdminRefusedError(f"--admin {url}: {error}") from error
        self._http = httpx.Client(base_url=self.url, headers=headers, timeout=timeout_s, trust_env=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    def ask(
        self, method: str, path: str, body: dict[str, str] | bytes | None = None, params: dict[str, str] | None = None
    ) -> dict[str, Any]:
        """The answer's JSON object. A ``body`` of bytes goes as it is. ``params``: of the query.

        Raises ``AdminRefusedError`` or ``AdminUnreachableError``.
        """
        raw, fields = (body, None) if isinstance(body, bytes) else (None, body)
        try:
            response = self._http.request(method, path, content=raw, json=fields, params=params)
            answer = response.json()
        except httpx.HTTPError as error:
            raise AdminUnreachableError(f"{self.url}: {str(error) or type(error).__name__}") from error
        except (json.JSONDecodeError, UnicodeDecodeError) as error:
            raise AdminUnreachableError(f"{self.url} is no admin port of a gateway") from error
        if response.is_success and isinstance(answer, dict):
            return answer
        raise AdminRefusedError(_message(answer) or f"{self.url}{path} answered {response.status_code}")


def default_url(settings: Settings) -> str:
    """Where a gateway with these settings can be asked from its own machine."""
    listen = settings.admin_listen
    here = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(listen.host, listen.host)  # noqa: S104 - not bound here
    return f"http://{listen._replace(host=here)}"


def _message(answer: Any) -> str:
    error = answer.get("error") if isinstance(answer, dict) else None
    return str(error.get("message", "")) if isinstance(error, dict) else ""
