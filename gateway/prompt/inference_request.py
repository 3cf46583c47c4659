"""InferenceRequest: what routing needs from a request body. Knows the fields, no template, no tokenizer.

The raw bytes go to the replica untouched, so this never validates for the engine: only what is no JSON
object, and a ``model`` that is no text, is refused here. Everything else that looks odd is routed without a
prompt (``unrendered``) and judged by the engine.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from gateway.errors import BadRequest
from gateway.prompt.chat_prompt import ChatPrompt
from gateway.prompt.json_body import JsonBody, is_unicode, read_flag
from gateway.prompt.unrendered import Unrendered

Prompt = str | tuple[int, ...]

_DEFAULT_COMPLETION_TOKENS = 16  # OpenAI's, and vLLM's, max_tokens of /v1/completions


@dataclass(frozen=True, slots=True)
class InferenceRequest:
    """``unrendered`` and ``incomparable`` are labels of metrics: words of ours, never client text."""

    route: str  # "chat" | "completions" | "other"
    model: str = ""  # "": the body names none
    stream: bool = False
    prompts: tuple[Prompt, ...] = ()  # of completions
    chat: ChatPrompt | None = None
    add_special_tokens: bool = True
    cache_salt: str = ""
    session: str = ""
    reads_cache: bool = True  # False: vLLM computes the whole prompt, cached or not
    incomparable: str = ""  # why cached_tokens will not say what the prefix cache held
    unrendered: str = ""  # why the prompt cannot be known
    max_tokens: int | None = None
    includes_usage: bool = True
    size: int = 0  # bytes of the body: no prompt has more characters

    @classmethod
    def parse(cls, route: str, body: bytes, *, session: str = "") -> Self:
        """``session``: from a header; it wins over the body's ``session_id``.

        Raises :class:`BadRequest` if a chat or completions body is no JSON object; bodies of other routes may
        be anything (multipart, say) and then simply name no model.
        """
        if route == "chat":
            return cls._parse_chat(JsonBody.parse(body), session)
        if route == "completions":
            return cls._parse_completions(JsonBody.parse(body), session)
        return cls._parse_other(body, session)

    @classmethod
    def _parse_chat(cls, body: JsonBody, session: str) -> Self:
        chat, unrendered = None, _why_unknown(body)
        if not unrendered:
            try:
                chat = ChatPrompt.parse(body)
            except Unrendered as unknown:
                unrendered = unknown.reason
        completion_tokens = body.integer("max_completion_tokens")
        return cls(
            route="chat",
            chat=chat,
            unrendered=unrendered,
            add_special_tokens=body.flag("add_special_tokens", default=False),
            max_tokens=body.integer("max_tokens") if completion_tokens is None else completion_tokens,
            **_common(body, session, echoed_logprobs=body.fields.get("top_logprobs", 0) is not None, prompts=1),
        )

    @classmethod
    def _parse_completions(cls, body: JsonBody, session: str) -> Self:
        prompts: tuple[Prompt, ...] = ()
        unrendered = _why_unknown(body)
        if not unrendered:
            try:
                prompts = _read_prompts(body.get("prompt"))
            except Unrendered as unknown:
                unrendered = unknown.reason
        max_tokens = body.integer("max_tokens")
        return cls(
            route="completions",
            prompts=prompts,
            unrendered=unrendered,
            add_special_tokens=body.flag("add_special_tokens", default=True),
            max_tokens=_DEFAULT_COMPLETION_TOKENS if max_tokens is None else max_tokens,
            **_common(body, session, echoed_logprobs=body.get("logprobs") is not None, prompts=len(prompts)),
        )

    @classmethod
    def _parse_other(cls, raw: bytes, session: str) -> Self:
        try:
            body = JsonBody.parse(raw)
        except BadRequest:
            return cls(
                "other",
                session=session,
                unrendered="route",
                incomparable="route",
                includes_usage=False,
                size=len(raw),
            )
        return cls(
            "other",
            model=_model(body),
            stream=body.flag("stream", default=False),
            session=session or body.text("session_id"),
            unrendered="route",
            incomparable="route",
            includes_usage=False,
            size=body.size,
        )


def _common(body: JsonBody, session: str, *, echoed_logprobs: bool, prompts: int) -> dict[str, Any]:
    """The fields that chat and completions share."""
    stream = body.flag("stream", default=False)
    includes_usage = not stream or _asks_for_usage(body.get("stream_options"))
    echoes_logprobs = echoed_logprobs and body.flag("echo", default=False)
    wants_logprobs = body.get("prompt_logprobs") is not None
    return {
        "model": _model(body),
        "stream": stream,
        "cache_salt": body.text("cache_salt"),
        "session": session or body.text("session_id"),
        "reads_cache": not (wants_logprobs or echoes_logprobs),
        "incomparable": _why_incomparable(body, wants_logprobs, echoes_logprobs, prompts, includes_usage),
        "includes_usage": includes_usage,
        "size": body.size,
    }


def _model(body: JsonBody) -> str:
    model = body.get("model")
    if model is None:
        return ""
    if not isinstance(model, str) or not is_unicode(model):
        raise BadRequest("'model' must be a string.", param="model")
    return model


def _why_unknown(body: JsonBody) -> str:
    """Why the tokens the engine will compute are not those of the body's prompt."""
    if body.get("cache_salt") is not None and not body.text("cache_salt"):
        return "cache_salt"
    truncation = body.get("truncate_prompt_tokens")
    if truncation is not None and truncation != -1:  # -1: only a prompt beyond the context length is cut
        return "truncated"
    transfer = body.get("kv_transfer_params")
    if isinstance(transfer, dict) and transfer.get("prompt_token_ids") is not None:
        return "forwarded_tokens"
    return "prompt_embeds" if body.get("prompt_embeds") is not None else ""


def _why_incomparable(
    body: JsonBody, wants_logprobs: bool, echoes_logprobs: bool, prompts: int, includes_usage: bool
) -> str:
    if wants_logprobs:
        return "prompt_logprobs"
    if echoes_logprobs:
        return "echo_logprobs"
    if body.get("truncate_prompt_tokens") is not None:
        return "truncated"
    if prompts > 1:
        return "several_prompts"
    if (body.integer("n") or 1) > 1 or body.flag("use_beam_search", default=False):
        return "several_choices"
    return "" if includes_usage else "no_usage"


def _asks_for_usage(options: object) -> bool:
    return isinstance(options, dict) and read_flag(options.get("include_usage"), default=False)


def _read_prompts(raw: object) -> tuple[Prompt, ...]:
    """OpenAI's four forms: text, list of texts, token ids, list of lists of token ids."""
    if isinstance(raw, str):
        return (raw,)
    if not isinstance(raw, list) or not raw:
        raise Unrendered("prompt")
    if isinstance(raw[0], int):
        return (_checked_ids(raw),)
    return tuple(prompt if isinstance(prompt, str) else _checked_ids(prompt) for prompt in raw)


def _checked_ids(ids: object) -> tuple[int, ...]:
    if not isinstance(ids, list) or set(map(type, ids)) != {int}:
        raise Unrendered("prompt")
    if min(ids) < 0 or max(ids) >= 1 << 32:
        raise Unrendered("prompt")
    return tuple(ids)
