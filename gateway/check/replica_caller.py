"""ReplicaCaller: small requests of the checks, straight to a replica.

Not through the proxy: they count as nobody's request. Each is marked by its ``X-Request-Id`` and has a deadline.
"""

from __future__ import annotations

import json
from http import HTTPStatus
from types import TracebackType
from typing import Any, NamedTuple, Self
from uuid import uuid4

import httpx

from gateway.fleet.replica import Replica

#: What the id of every such request begins with, so that it can be told apart in a replica's log.
MARK = "prefixway-check-"


class CallFailed(Exception):
    """A replica did not answer as it should. The text says how, without any of the answer."""


class CallBroken(CallFailed):
    """It answered with 5xx: no request would fare better."""


class CallTimedOut(CallFailed):
    """It did not answer in time, for which there are good reasons, too."""


class Usage(NamedTuple):
    """What an answer told of its prompt. ``cached`` is ``None`` where it does not say."""

    prompt: int
    cached: int | None


class ReplicaCaller:
    """Close it, or use it in ``async with``. ``timeout_s`` bounds each call."""

    def __init__(self, *, api_key: str = "", timeout_s: float = 5.0) -> None:
        headers = {"authorization": f"Bearer {api_key}"} if api_key else {}
        # A replica that hangs keeps nobody from asking the others. Checks are far apart: no connection is kept.
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)
        self._http = httpx.AsyncClient(headers=headers, timeout=timeout_s, limits=limits, trust_env=False)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        await self._http.aclose()

    async def tokenize(self, replica: Replica, body: dict[str, object]) -> list[int]:
        """Token ids for a body of vLLM's /tokenize. Raises :class:`CallFailed`."""
        tokens = (await self._post(replica, "/tokenize", body)).get("tokens")
        if not isinstance(tokens, list) or not all(type(token) is int for token in tokens):
            raise CallFailed("/tokenize answered without tokens")
        return tokens

    async def complete(self, replica: Replica, model: str, prompt: list[int], *, salt: str = "") -> Usage:
        """Have one token generated after ``prompt``. Raises :class:`CallFailed`."""
        body: dict[str, object] = {"model": model, "prompt": prompt, "max_tokens": 1, "temperature": 0}
        if salt:
            body["cache_salt"] = salt
        return _usage((await self._post(replica, "/v1/completions", body)).get("usage"))

    async def _post(self, replica: Replica, path: str, body: dict[str, object]) -> dict[str, Any]:
        headers = {"x-request-id": f"{MARK}{uuid4().hex}"}
        if replica.pinned_rank is not None:
            headers["x-data-parallel-rank"] = str(replica.pinned_rank)
        try:
            answer = await self._http.post(replica.server.spec.origin.url + path, json=body, headers=headers)
        except httpx.ReadTimeout as error:
            raise CallTimedOut(f"{path}: no answer in time") from error
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise CallFailed(f"{path}: {type(error).__name__}") from error
        if not answer.is_success:
            is_broken = answer.is_server_error and answer.status_code != HTTPStatus.NOT_IMPLEMENTED
            raise (CallBroken if is_broken else CallFailed)(f"{path} answered {answer.status_code}")
        try:
            page = json.loads(answer.content)
        except (ValueError, RecursionError):
            page = None
        if not isinstance(page, dict):
            raise CallFailed(f"{path} answered no JSON object")
        return page


def _usage(usage: object) -> Usage:
    if not isinstance(usage, dict) or type(usage.get("prompt_tokens")) is not int:
        raise CallFailed("/v1/completions answered without usage")
    details = usage.get("prompt_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, dict) else None
    return Usage(usage["prompt_tokens"], cached if type(cached) is int else None)
