"""GenerateRequest: a chat or completions body as vLLM reads it. Knows no tokens, limits or engine."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from loadtest.replica.api_error import ApiError

DEFAULT_COMPLETION_TOKENS = 16
_TEMPLATE_FIELDS = ("tools", "add_generation_prompt", "continue_final_message")

Body = dict[str, Any]
Prompt = str | list[int]


@dataclass(frozen=True, slots=True)
class GenerateRequest:
    """``prompts`` is empty for chat; ``messages`` and ``template`` (its arguments) are for chat only."""

    is_chat: bool
    model: str
    prompts: tuple[Prompt, ...]
    messages: Sequence[Mapping[str, Any]]
    template: Mapping[str, Any]
    add_special_tokens: bool
    stream: bool
    includes_usage: bool
    max_tokens: int | None
    ignore_eos: bool
    cache_salt: str
    session_id: str
    request_id: str
    reads_cache: bool
    reannounce: bool

    @classmethod
    def parse(cls, body: Body, *, is_chat: bool) -> GenerateRequest:
        """Raises :class:`ApiError` with vLLM's 400s."""
        messages = _messages(body) if is_chat else ()
        stream_options = _optional(body, "stream_options", dict, {})
        xargs = _optional(body, "vllm_xargs", dict, {})
        echoes_logprobs = bool(body.get("echo")) and body.get("logprobs") is not None
        return cls(
            is_chat=is_chat,
            model=_optional(body, "model", str, ""),
            prompts=() if is_chat else _prompts(body),
            messages=messages,
            template=_template_arguments(body) if is_chat else {},
            add_special_tokens=bool(body.get("add_special_tokens", not is_chat)),
            stream=bool(_optional(body, "stream", bool, False)),
            includes_usage=bool(stream_options.get("include_usage")),
            max_tokens=_max_tokens(body, is_chat),
            ignore_eos=bool(body.get("ignore_eos")),
            cache_salt=_salt(body),
            session_id=_optional(body, "session_id", str, ""),
            request_id=_optional(body, "request_id", str, ""),
            reads_cache=body.get("prompt_logprobs") is None and not echoes_logprobs,
            reannounce=xargs.get("kv_cache_report_mode") == "full",
        )


def read_json(raw: bytes) -> Body:
    """A body that is a JSON object. Raises :class:`ApiError`."""
    try:
        body = json.loads(raw)
    except json.JSONDecodeError as error:
        raise ApiError.invalid(str(error.pos), "json_invalid", "JSON decode error", {}) from error
    except UnicodeDecodeError as error:
        raise ApiError.invalid("0", "json_invalid", "JSON decode error", {}) from error
    if not isinstance(body, dict):
        message = "Input should be a valid dictionary or object to extract fields from"
        raise ApiError.invalid("", "model_attributes_type", message, body)
    return body


def _salt(body: Body) -> str:
    salt: str = _optional(body, "cache_salt", str, "")
    ApiError.require_text(salt)
    return salt


def _optional(body: Body, field: str, kind: type, default: Any) -> Any:
    value = body.get(field)
    if value is None:
        return default
    if not isinstance(value, kind):
        raise ApiError.invalid(field, f"{kind.__name__}_type", f"Input should be a valid {kind.__name__}", value)
    return value


def _messages(body: Body) -> Sequence[Mapping[str, Any]]:
    if "messages" not in body:
        raise ApiError.invalid("messages", "missing", "Field required", body)
    messages: list[Mapping[str, Any]] = _optional(body, "messages", list, [])
    if not messages:
        raise ApiError.bad_request("Cannot apply chat template to an empty conversation. Provide at least one message.")
    for position, message in enumerate(messages):
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            raise ApiError.invalid(f"messages.{position}.role", "missing", "Field required", message)
    return messages


def _template_arguments(body: Body) -> Mapping[str, Any]:
    arguments = {field: body[field] for field in _TEMPLATE_FIELDS if body.get(field) is not None}
    kwargs: Mapping[str, Any] = _optional(body, "chat_template_kwargs", dict, {})
    return {**arguments, **kwargs}


def _prompts(body: Body) -> tuple[Prompt, ...]:
    prompt = body.get("prompt")
    if isinstance(prompt, str):
        return (prompt,)
    if isinstance(prompt, list) and prompt:
        if _is_token_list(prompt):
            return (prompt,)
        if all(isinstance(item, str) or _is_token_list(item) for item in prompt):
            return tuple(prompt)
    if prompt is None or prompt == []:
        raise ApiError.bad_request("Either prompt or prompt_embeds must be provided and non-empty.")
    raise ApiError.invalid("prompt", "string_type", "Input should be a valid string", prompt)


def _is_token_list(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(type(item) is int and item >= 0 for item in value)


def _max_tokens(body: Body, is_chat: bool) -> int | None:
    field = "max_completion_tokens" if is_chat and "max_completion_tokens" in body else "max_tokens"
    value = body.get(field)
    if value is None:
        return None if is_chat else DEFAULT_COMPLETION_TOKENS
    try:
        tokens = int(value)
    except (TypeError, ValueError, OverflowError):
        message = "Input should be a valid integer, unable to parse string as an integer"
        raise ApiError.invalid(field, "int_parsing", message, value) from None
    if tokens < 1:
        raise ApiError.bad_request(f"{field} must be at least 1, got {tokens}.", field)
    return tokens
