"""Fields of a body that make its prompt another one than it looks like, or ``usage`` tell something else of it.

Each form has its own; in the others the engine does not look at them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from gateway.prompt.json_body import JsonBody, is_unicode, read_flag

_SALT = frozenset({"cache_salt"})
_FORWARDED = frozenset({"kv_transfer_params"})  # a prefill's token ids may be in it
_CHAT = (
    _SALT | _FORWARDED | {"echo", "n", "prompt_embeds", "prompt_logprobs", "truncate_prompt_tokens", "use_beam_search"}
)
_FIELDS: Mapping[str, frozenset[str]] = {
    "chat": _CHAT,
    "completions": _CHAT,
    "responses": _SALT | _FORWARDED | {"truncation", "background"},
    "messages": _SALT | _FORWARDED,
    "pooling": _SALT | {"padding", "task", "truncate_prompt_tokens"},
}
_TASKS_OF_ALL_TOKENS = frozenset({"token_embed", "token_classify", "plugin"})


class Unusual(NamedTuple):
    """What such fields say. ``unrendered``: why the tokens that the engine computes are not those of the prompt.
    ``incomparable``: why cached_tokens will not say what the prefix cache held. "": they are, it will.
    """

    cache_salt: str = ""
    unrendered: str = ""
    incomparable: str = ""
    reads_cache: bool = True


USUAL = Unusual()


def unusual(form: str, body: JsonBody) -> Unusual:
    """``form``: chat, completions, responses, messages or pooling."""
    names = _FIELDS[form]
    if names.isdisjoint(body.fields):
        return USUAL
    fields = {name: body.get(name) for name in names if name in body.fields}
    salt = _text(fields.get("cache_salt"))
    wants_logprobs = fields.get("prompt_logprobs") is not None
    echoes_logprobs = _echoes_logprobs(form, fields, body)
    return Unusual(
        cache_salt=salt,
        unrendered=_why_unknown(fields, salt),
        incomparable=_why_incomparable(fields, wants_logprobs, echoes_logprobs),
        reads_cache=not (wants_logprobs or echoes_logprobs or _text(fields.get("task")) in _TASKS_OF_ALL_TOKENS),
    )


def _echoes_logprobs(form: str, fields: Mapping[str, Any], body: JsonBody) -> bool:
    if not read_flag(fields.get("echo"), default=False):
        return False
    return (body.fields.get("top_logprobs", 0) if form == "chat" else body.get("logprobs")) is not None


def _why_unknown(fields: Mapping[str, Any], salt: str) -> str:
    if fields.get("cache_salt") is not None and not salt:
        return "cache_salt"
    truncation = fields.get("truncate_prompt_tokens")
    if truncation is not None and truncation != -1:  # -1: only a prompt beyond the context length is cut
        return "truncated"
    if fields.get("padding", "do_not_pad") not in (None, "do_not_pad"):
        return "padded"
    transfer = fields.get("kv_transfer_params")
    if isinstance(transfer, dict) and transfer.get("prompt_token_ids") is not None:
        return "forwarded_tokens"
    return "prompt_embeds" if fields.get("prompt_embeds") is not None else ""


def _why_incomparable(fields: Mapping[str, Any], wants_logprobs: bool, echoes_logprobs: bool) -> str:
    if wants_logprobs:
        return "prompt_logprobs"
    if echoes_logprobs:
        return "echo_logprobs"
    if fields.get("truncate_prompt_tokens") is not None or fields.get("truncation", "disabled") != "disabled":
        return "truncated"
    if read_flag(fields.get("background"), default=False):
        return "no_usage"  # the answer comes before the work is done
    choices = fields.get("n")
    several = isinstance(choices, int) and choices > 1
    return "several_choices" if several or read_flag(fields.get("use_beam_search"), default=False) else ""


def _text(value: object) -> str:
    return value if isinstance(value, str) and is_unicode(value) else ""
