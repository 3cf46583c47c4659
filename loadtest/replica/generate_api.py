"""GenerateApi: /v1/chat/completions and /v1/completions of a simulated replica.

From a body to tokens, through a rank's scheduler, and back to bytes: plain or as server-sent events. The head
of a stream goes out at once and its first chunk after prefill, as vLLM's does. Acts out the replica's faults.
"""

from __future__ import annotations

import contextlib
import json
import uuid
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from loadtest.replica.answer import Speaker
from loadtest.replica.answer_shape import AnswerShape, ChatShape, Choice, CompletionShape, Usage
from loadtest.replica.api_error import ApiError, fault_error
from loadtest.replica.block_cache import CacheScope
from loadtest.replica.engine_rank import EngineRank
from loadtest.replica.faults import HEALTHY, Fault, Faults
from loadtest.replica.generate_request import GenerateRequest, read_json
from loadtest.replica.http_server import ReceivedRequest, Responder
from loadtest.replica.model_folder import ModelFolder, TextStream
from loadtest.replica.options import ReplicaOptions
from loadtest.replica.scheduler import Generation
from loadtest.replica.silent_faults import SilentFaults

EVENT_STREAM = ("content-type", "text/event-stream; charset=utf-8")
JSON = ("content-type", "application/json")


class Piece(NamedTuple):
    """One token's worth of text. ``finish_reason`` is set at the last one."""

    text: str
    finish_reason: str | None


class GenerateApi:
    """Serves generation requests on the ranks of one replica."""

    def __init__(
        self,
        options: ReplicaOptions,
        folder: ModelFolder,
        ranks: Sequence[EngineRank],
        faults: Faults,
        *,
        silent: SilentFaults,
        clock: Callable[[], float],
    ) -> None:
        self._options = options
        self._folder = folder
        self._ranks = ranks
        self._faults = faults
        self._silent = silent
        self._clock = clock
        self._speaker = Speaker(folder, options.answer_tokens, options.answer_text)

    async def handle(self, request: ReceivedRequest, responder: Responder, *, is_chat: bool) -> None:
        """Answer one generation request. Raises :class:`ApiError` before anything was sent."""
        fault = self._faults.take()
        if fault.stall_before_head:
            await self._faults.stall()
        if fault.status:
            await _refuse(responder, fault)
            return
        call = GenerateRequest.parse(read_json(request.body), is_chat=is_chat)
        scope = self._scope(call, request)
        prompts = self._tokenize(call)
        rank = self._rank(request.header("x-data-parallel-rank"))
        request_id = call.request_id or request.header("x-request-id") or uuid.uuid4().hex[:16]
        kind = ChatShape if is_chat else CompletionShape
        shape = kind(request_id, int(self._clock()), call.model or self._options.model)
        headers = [("x-request-id", request_id)]
        generations = [self._generation(call, prompt, scope) for prompt in prompts]
        body = FaultyBody(responder, fault, self._faults)
        if call.stream:
            await responder.head(200, [EVENT_STREAM, *headers])
            await self._stream(call, rank, generations, shape, body)
        else:
            choices = [await self._whole_choice(rank, generation) for generation in generations]
            answer = _dump(shape.whole(choices, self._usage(generations)))
            await responder.head(200, [JSON, *headers, ("content-length", str(len(answer)))])
            await body.write_whole(answer)

    def tokenize_chat(self, messages: Sequence[Mapping[str, Any]], template: Mapping[str, Any]) -> list[int]:
        """The tokens of a conversation. Raises :class:`ApiError` where the template refuses it."""
        try:
            text = self._folder.render_chat(messages, **template)
        except ValueError as error:
            raise ApiError.bad_request(str(error)) from error
        return self.tokenize(self._silent.template_preamble + text, add_special_tokens=False)

    def tokenize(self, text: str, *, add_special_tokens: bool) -> list[int]:
        """The tokens of a text. Raises :class:`ApiError`."""
        tokens = self._folder.encode(text, add_special_tokens=add_special_tokens)
        if self._silent.splits_tokens:
            tokens = [part for token in tokens for part in self._folder.letters(token)]
        if self._silent.shifts_tokens:
            tokens = [(token + 1) % self._folder.vocab_size for token in tokens]
        return tokens

    def lora_id(self, model: str) -> int | None:
        """The LoRA of that name, counted from 1; ``None`` for the base model. Raises :class:`ApiError`."""
        if model in ("", self._options.model):
            return None
        if model not in self._options.loras:
            raise ApiError.unknown_model(model, ", ".join([self._options.model, *self._options.loras]))
        return self._options.loras.index(model) + 1

    def _scope(self, call: GenerateRequest, request: ReceivedRequest) -> CacheScope:
        lora_id = self.lora_id(call.model)
        session_id = call.session_id or request.header("x-session-id")
        salt = "" if self._silent.ignores_salt else call.cache_salt
        return CacheScope(salt, call.model if lora_id else "", lora_id, session_id)

    def _tokenize(self, call: GenerateRequest) -> list[list[int]]:
        if call.is_chat:
            prompts = [self.tokenize_chat(call.messages, call.template)]
        else:
            special = call.add_special_tokens
            prompts = [
                self.tokenize(prompt, add_special_tokens=special) if isinstance(prompt, str) else prompt
                for prompt in call.prompts
            ]
        for prompt in prompts:
            if not prompt:
                raise ApiError.bad_request("The decoder prompt cannot be empty")
            if max(prompt) >= self._folder.vocab_size:
                raise ApiError.bad_request(f"Token id {max(prompt)} is out of vocabulary")
            if len(prompt) >= self._options.context_limit:
                raise ApiError.too_long(len(prompt), self._options.context_limit)
        return prompts

    def _rank(self, header: str) -> EngineRank:
        if not header:
            return min(self._ranks, key=lambda rank: rank.load)
        if not header.isdigit() or int(header) >= len(self._ranks):
            message = f"data_parallel_rank {header} is out of range [0, {len(self._ranks)})."
            raise ApiError.bad_request(message)
        return self._ranks[int(header)]

    def _generation(self, call: GenerateRequest, prompt: list[int], scope: CacheScope) -> Generation:
        room = self._options.context_limit - len(prompt)
        limit = min(room, call.max_tokens) if call.max_tokens is not None else room
        answer = self._speaker.answer(prompt, limit, ignore_eos=call.ignore_eos)
        return Generation(
            prompt=prompt,
            answer=answer.tokens,
            scope=scope,
            reads_cache=call.reads_cache,
            reannounce=call.reannounce,
            finish_reason=answer.finish_reason,
        )

    async def _pieces(self, rank: EngineRank, generation: Generation) -> AsyncGenerator[Piece, None]:
        text = TextStream(self._folder)
        async with contextlib.aclosing(rank.scheduler.generate(generation)) as tokens:
            missing = len(generation.answer)
            async for token in tokens:
                missing -= 1
                finish_reason = None if missing else generation.finish_reason
                yield Piece(text.push(token, last=not missing), finish_reason)

    async def _whole_choice(self, rank: EngineRank, generation: Generation) -> Choice:
        async with contextlib.aclosing(self._pieces(rank, generation)) as pieces:
            texts = [piece.text async for piece in pieces]
        return Choice("".join(texts), generation.finish_reason)

    async def _stream(
        self,
        call: GenerateRequest,
        rank: EngineRank,
        generations: Sequence[Generation],
        shape: AnswerShape,
        body: FaultyBody,
    ) -> None:
        for index, generation in enumerate(generations):
            opening = shape.opening(index)
            async with contextlib.aclosing(self._pieces(rank, generation)) as pieces:
                async for piece in pieces:
                    if opening is not None:
                        await body.write(_event(opening))
                        opening = None
                    await body.write(_event(shape.chunk(index, piece.text, piece.finish_reason)))
        if call.includes_usage:
            await body.write(_event(shape.usage_chunk(self._usage(generations))))
        await body.write(b"data: [DONE]\n\n")
        await body.end()

    def _usage(self, generations: Iterable[Generation]) -> Usage:
        rows = list(generations)
        tells = self._options.prompt_tokens_details and self._silent.tells_cached_tokens
        cached = sum(row.cached_tokens or 0 for row in rows) if tells else None
        return Usage(sum(len(row.prompt) for row in rows), sum(row.generated for row in rows), cached)


class FaultyBody:
    """The body of an answer, which may stall or end where its fault says."""

    def __init__(self, responder: Responder, fault: Fault, faults: Faults) -> None:
        self._responder = responder
        self._fault = fault
        self._faults = faults
        self._written = 0

    async def write(self, chunk: bytes) -> None:
        await self._misbehave()
        await self._responder.write(chunk)
        self._written += 1

    async def write_whole(self, body: bytes) -> None:
        """A body that has its length: two chunks of it where something is to go wrong in between."""
        middle = len(body) if self._fault == HEALTHY else len(body) // 2
        await self.write(body[:middle])
        await self.write(body[middle:])

    async def end(self) -> None:
        await self._misbehave()
        await self._responder.end()

    async def _misbehave(self) -> None:
        if self._fault.stall_after_chunks == self._written:
            await self._faults.stall()
        if self._fault.die_after_chunks == self._written:
            await self._responder.die(reset=self._fault.reset)


async def _refuse(responder: Responder, fault: Fault) -> None:
    retry_after = [] if fault.retry_after_s is None else [("retry-after", str(fault.retry_after_s))]
    await responder.send(fault.status, [JSON, *retry_after], fault_error(fault.status).body())


def _dump(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def _event(value: Mapping[str, Any]) -> bytes:
    return b"data: %b\n\n" % _dump(value)
