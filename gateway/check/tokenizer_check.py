"""Token parity: what the gateway makes of texts and chats, beside what the replica makes of them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any, NamedTuple

from gateway.check.knowledge import Knowledge
from gateway.check.probe_corpus import CHATS, TEXTS
from gateway.check.replica_caller import CallFailed, ReplicaCaller
from gateway.check.verdict import Verdict, fine, skipped, wrong
from gateway.fleet.replica import Replica
from gateway.prompt.blocks import pack_tokens
from gateway.prompt.encoded_prompt import EncodedPrompt
from gateway.prompt.encoder import LocalEncoder, PromptEncoder
from gateway.prompt.inference_request import InferenceRequest
from gateway.prompt.remote_encoder import RemoteEncoder

_CHECK = "tokenizer"
_MOST_ADAPTERS = 4
_SAME = "the same"
#: What an encoder says of a chat where it found the tokenizer and no template that it can render.
_NOT_RENDERED_HERE = frozenset({"no_template", "remote_tokenize", "remote_failed", "remote_timeout"})


class _Compared(NamedTuple):
    """How many samples are the same on both sides, and how the others differ that both could encode."""

    same: int
    different: list[str]


async def check_tokenizer(replica: Replica, knowledge: Knowledge, caller: ReplicaCaller) -> AsyncIterator[Verdict]:
    """Texts first: a chat can only be compared where these agree."""
    model = replica.key.namespace
    encoder = knowledge.encoder(model)
    if not isinstance(encoder, LocalEncoder):
        yield _no_tokenizer(encoder, replica)
        return
    try:
        texts = await _compare(_texts(model), encoder, replica, caller)
        adapters = await _compare(_adapter_texts(replica), encoder, replica, caller)
    except CallFailed as failure:
        yield skipped(_CHECK, replica.id, str(failure))
        return
    if texts.different:
        detail = f"{len(texts.different)} of {len(TEXTS)} texts have other tokens: {texts.different[0]}"
        yield wrong(_CHECK, replica.id, "tokenizer_differs", detail)
        return
    if adapters.different:
        detail = f"with its LoRA adapter it makes other tokens: {adapters.different[0]}"
        yield wrong(_CHECK, replica.id, "tokenizer_differs", detail)
        return
    yield fine(_CHECK, replica.id, f"{texts.same} texts, the same tokens")
    yield await _check_template(replica, encoder, caller)


def _no_tokenizer(encoder: PromptEncoder | None, replica: Replica) -> Verdict:
    if encoder is None:
        return skipped(_CHECK, replica.id, "not looked for yet")
    name = "tokenizer_remote" if isinstance(encoder, RemoteEncoder) else "tokenizer_absent"
    return wrong(_CHECK, replica.id, name, f"of {replica.key.namespace}", of="")


async def _check_template(replica: Replica, encoder: LocalEncoder, caller: ReplicaCaller) -> Verdict:
    model = replica.key.namespace
    if encoder.native_chats:
        return skipped("template", replica.id, "vLLM renders such chats in Python: replicas tokenize them, slowly")
    first = await _encoded(next(_chats(model)), encoder)
    if first.reason in _NOT_RENDERED_HERE:
        return wrong("template", replica.id, "tokenizer_remote", f"the chat template of {model}", of="")
    try:
        chats = await _compare(_chats(model), encoder, replica, caller)
    except CallFailed as failure:
        return skipped("template", replica.id, str(failure))
    if chats.different:
        detail = f"{len(chats.different)} of {len(CHATS)} chats have other tokens: {', '.join(chats.different[:3])}"
        return wrong("template", replica.id, "template_differs", detail)
    if not chats.same:
        return skipped("template", replica.id, "no chat could be compared: the replica or its template refuses all")
    return fine("template", replica.id, f"{chats.same} chats, the same tokens")


class _Sample(NamedTuple):
    """``kind``: of the route. ``body``: as a client would send it. ``question``: the same for /tokenize."""

    name: str
    kind: str
    body: Mapping[str, Any]
    question: dict[str, object]


def _texts(model: str) -> Iterator[_Sample]:
    for number, text in enumerate(TEXTS, 1):
        yield _text(f"text {number}", model, text)


def _adapter_texts(replica: Replica) -> Iterator[_Sample]:
    adapters = [card.id for card in replica.server.cards if card.parent is not None]
    for name in adapters[:_MOST_ADAPTERS]:
        yield _text(name, name, TEXTS[0])


def _text(name: str, model: str, text: str) -> _Sample:
    body = {"model": model, "prompt": text}
    return _Sample(name, "completions", body, {**body, "add_special_tokens": True})


def _chats(model: str) -> Iterator[_Sample]:
    for name, fields in CHATS.items():
        body = {"model": model, **fields}
        question = {**body, "add_generation_prompt": True, "add_special_tokens": False}
        yield _Sample(name, "chat", body, question)


async def _encoded(sample: _Sample, encoder: PromptEncoder) -> EncodedPrompt:
    return await encoder.encode(InferenceRequest.parse(sample.kind, json.dumps(sample.body).encode()))


async def _compare(
    samples: Iterator[_Sample], encoder: PromptEncoder, replica: Replica, caller: ReplicaCaller
) -> _Compared:
    """A sample that the template refuses on either side tells nothing. Raises :class:`CallFailed` if all failed."""
    rows = await asyncio.gather(*(_compared(sample, encoder, replica, caller) for sample in samples))
    same, different = rows.count(_SAME), [row for row in rows if row and row != _SAME]
    if rows and not same and not different:
        raise CallFailed("/tokenize answers none of the samples")
    return _Compared(same, different)


async def _compared(sample: _Sample, encoder: PromptEncoder, replica: Replica, caller: ReplicaCaller) -> str:
    """How it differs; "": one side could not encode it."""
    ours = await _encoded(sample, encoder)
    try:
        theirs = await caller.tokenize(replica, sample.question)
    except CallFailed:
        return ""
    if not ours.count or not ours.complete:
        return ""
    return _SAME if ours.tokens == pack_tokens(theirs) else f"{sample.name} ({ours.count} here, {len(theirs)} there)"
