"""RemoteTokenizer: prompts tokenized by a replica, where the gateway has no tokenizer of its own."""

from __future__ import annotations

import json
from collections.abc import Callable

import httpx

from gateway.fleet.replica_pool import ReplicaPool


class RemoteTokenizer:
    """Asks the least busy replica that serves the model. Close it: it owns connections."""

    def __init__(
        self,
        pool: ReplicaPool,
        *,
        clock: Callable[[], float],
        api_key: str | None = None,
        timeout_s: float = 5.0,
    ) -> None:
        self._pool = pool
        self._clock = clock
        headers = {"authorization": f"Bearer {api_key}"} if api_key else {}
        self._http = httpx.AsyncClient(headers=headers, timeout=timeout_s, trust_env=False)

    async def tokenize(self, model: str, body: dict[str, object]) -> list[int]:
        """Token ids for a body of vLLM's /tokenize. Raises ``NoReplica``, ``OSError`` or ``ValueError``."""
        replicas = self._pool.routable(model, (), self._clock())
        replica = min(replicas, key=lambda replica: replica.workload.inflight)
        try:
            answer = await self._http.post(f"{replica.server.spec.origin.url}/tokenize", json=body)
        except httpx.HTTPError as error:
            raise OSError(f"/tokenize: {type(error).__name__}") from error
        if not answer.is_success:
            raise ValueError(f"/tokenize answered {answer.status_code}")
        try:
            page = json.loads(answer.content)
        except RecursionError as error:
            raise ValueError("/tokenize answered nonsense") from error
        tokens = page.get("tokens") if isinstance(page, dict) else None
        if not isinstance(tokens, list):
            raise ValueError("/tokenize answered without tokens")
        return tokens

    async def close(self) -> None:
        await self._http.aclose()
