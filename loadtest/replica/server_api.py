"""ServerApi: the routes of a simulated replica besides generation, answered as vLLM 0.32 answers them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any
from urllib.parse import parse_qs

from loadtest.replica.api_error import ApiError
from loadtest.replica.engine_rank import EngineRank
from loadtest.replica.faults import Faults
from loadtest.replica.generate_api import JSON, GenerateApi
from loadtest.replica.generate_request import read_json
from loadtest.replica.http_server import ReceivedRequest, Responder
from loadtest.replica.metrics_text import metrics_text
from loadtest.replica.model_folder import ModelFolder
from loadtest.replica.options import ReplicaOptions

Route = Callable[[ReceivedRequest, Responder], Awaitable[None]]


class ServerApi:
    """Finds the route of a request and turns an :class:`ApiError` into its answer."""

    def __init__(
        self,
        options: ReplicaOptions,
        folder: ModelFolder,
        ranks: Sequence[EngineRank],
        faults: Faults,
        *,
        generate: GenerateApi,
        start_time_s: Callable[[], float],
        cue: Callable[[Mapping[str, Any]], Awaitable[None]],
    ) -> None:
        self._options = options
        self._folder = folder
        self._ranks = ranks
        self._faults = faults
        self._generate = generate
        self._start_time_s = start_time_s
        self._cue = cue
        self._asked: Counter[tuple[float, str]] = Counter()  # by the process's start time and the path
        self._routes: Mapping[str, Mapping[str, Route]] = {
            "/health": {"GET": self._health},
            "/ping": {"GET": self._health, "POST": self._health},
            "/load": {"GET": self._load},
            "/version": {"GET": self._version},
            "/metrics": {"GET": self._metrics},
            "/kv_event_sources": {"GET": self._event_sources} if options.lists_event_sources else {},
            "/reset_prefix_cache": {"POST": self._reset_prefix_cache},
            "/sleep": {"POST": self._sleep},
            "/wake_up": {"POST": self._wake_up},
            "/is_sleeping": {"GET": self._is_sleeping},
            "/tokenize": {"POST": self._tokenize},
            "/detokenize": {"POST": self._detokenize},
            "/v1/models": {"GET": self._models},
            "/v1/chat/completions": {"POST": self._chat},
            "/v1/completions": {"POST": self._completions},
            "/_sim/faults": {"POST": self._misbehave},
        }

    async def handle(self, request: ReceivedRequest, responder: Responder) -> None:
        """Answer any request."""
        responder.split_bytes = self._faults.split_bytes
        routes = self._routes.get(request.path)
        if not routes:
            await _send_json(responder, {"detail": "Not Found"}, 404)
        elif request.method not in routes:
            allow = ("allow", ", ".join(routes))
            await responder.send(405, [allow, JSON], b'{"detail":"Method Not Allowed"}')
        else:
            try:
                await routes[request.method](request, responder)
            except ApiError as error:
                await responder.send(error.status, [JSON], error.body())

    async def _health(self, _: ReceivedRequest, responder: Responder) -> None:
        await responder.send(self._faults.health_status, [], b"")

    async def _load(self, _: ReceivedRequest, responder: Responder) -> None:
        await _send_json(responder, {"server_load": sum(rank.load for rank in self._ranks)})

    async def _version(self, _: ReceivedRequest, responder: Responder) -> None:
        await _send_json(responder, {"version": self._options.version})

    async def _metrics(self, _: ReceivedRequest, responder: Responder) -> None:
        process = self._start_time_s()
        asked = {path: count for (start_s, path), count in self._asked.items() if start_s == process}
        text = metrics_text(self._options, self._ranks, process, asked)
        content_type = ("content-type", "text/plain; version=1.0.0; charset=utf-8")
        await responder.send(200, [content_type], text.encode())

    async def _event_sources(self, _: ReceivedRequest, responder: Responder) -> None:
        sources = {str(rank.rank): self._event_source(rank) for rank in self._ranks}
        await _send_json(responder, sources if self._options.kv_events else {})

    def _event_source(self, rank: EngineRank) -> Mapping[str, Any]:
        endpoint, replay = rank.silent.lists_events_of or (rank.publisher.endpoint, rank.publisher.replay_endpoint)
        return {
            "enable_kv_cache_events": True,
            "publisher": "zmq",
            "endpoint": endpoint,
            "replay_endpoint": replay,
            "buffer_steps": rank.publisher.buffer_steps,
            "hwm": 100_000,
            "max_queue_size": 100_000,
            "topic": rank.publisher.topic,
        }

    async def _reset_prefix_cache(self, request: ReceivedRequest, responder: Responder) -> None:
        resets = [rank.cache.reset() for rank in self._ranks]
        self._count(request)
        await _send_json(responder, {"success": all(resets)})

    async def _sleep(self, request: ReceivedRequest, responder: Responder) -> None:
        level = int(parse_qs(request.query).get("level", ["1"])[0])
        for rank in self._ranks:
            rank.scheduler.sleep(level)
        self._count(request)
        await _send_json(responder, {"status": "sleeping", "level": level})

    async def _wake_up(self, request: ReceivedRequest, responder: Responder) -> None:
        for rank in self._ranks:
            rank.scheduler.wake()
        self._count(request)
        await _send_json(responder, {"status": "awake", "tags": None})

    async def _is_sleeping(self, _: ReceivedRequest, responder: Responder) -> None:
        asleep = any(rank.scheduler.sleep_level is not None for rank in self._ranks)
        await _send_json(responder, {"is_sleeping": asleep})

    def _count(self, request: ReceivedRequest) -> None:
        self._asked[self._start_time_s(), request.path] += 1

    async def _tokenize(self, request: ReceivedRequest, responder: Responder) -> None:
        body = read_json(request.body)
        self._generate.lora_id(str(body.get("model") or ""))
        tokens = self._tokens_of(body)
        strings = self._folder.token_strings(tokens) if body.get("return_token_strs") else None
        answer = {"count": len(tokens), "max_model_len": self._options.context_limit}
        await _send_json(responder, {**answer, "tokens": tokens, "token_strs": strings})

    def _tokens_of(self, body: Mapping[str, Any]) -> list[int]:
        if isinstance(body.get("messages"), list):
            fields = ("tools", "add_generation_prompt", "continue_final_message")
            template = {field: body[field] for field in fields if body.get(field) is not None}
            template |= body.get("chat_template_kwargs") or {}
            return self._generate.tokenize_chat(body["messages"], template)
        if isinstance(body.get("prompt"), str):
            special = bool(body.get("add_special_tokens", True))
            return self._generate.tokenize(body["prompt"], add_special_tokens=special)
        raise ApiError.invalid("prompt", "missing", "Field required", dict(body))

    async def _detokenize(self, request: ReceivedRequest, responder: Responder) -> None:
        tokens = read_json(request.body).get("tokens")
        if not isinstance(tokens, list):
            raise ApiError.invalid("tokens", "missing", "Field required", {})
        await _send_json(responder, {"prompt": self._folder.decode(tokens)})

    async def _models(self, _: ReceivedRequest, responder: Responder) -> None:
        base = self._model_card(self._options.model, str(self._folder.path), None)
        loras = [self._model_card(name, f"/loras/{name}", self._options.model) for name in self._options.loras]
        await _send_json(responder, {"object": "list", "data": [base, *loras]})

    def _model_card(self, name: str, root: str, parent: str | None) -> Mapping[str, Any]:
        created = int(self._start_time_s())
        card = {"id": name, "object": "model", "created": created, "owned_by": "vllm", "root": root}
        return card | {"parent": parent, "max_model_len": None if parent else self._options.context_limit}

    async def _chat(self, request: ReceivedRequest, responder: Responder) -> None:
        await self._generate.handle(request, responder, is_chat=True)

    async def _completions(self, request: ReceivedRequest, responder: Responder) -> None:
        await self._generate.handle(request, responder, is_chat=False)

    async def _misbehave(self, request: ReceivedRequest, responder: Responder) -> None:
        try:
            await self._cue(read_json(request.body))
        except ValueError as error:
            raise ApiError.bad_request(str(error)) from error
        await _send_json(responder, {})


async def _send_json(responder: Responder, value: Mapping[str, Any], status: int = 200) -> None:
    body = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    await responder.send(status, [JSON], body)
