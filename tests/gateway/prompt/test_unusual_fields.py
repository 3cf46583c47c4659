"""Each form's own fields count, and no other's."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.prompt.json_body import JsonBody
from gateway.prompt.unusual_fields import USUAL, Unusual, unusual

FORMS = ("chat", "completions", "responses", "messages", "pooling")
FORWARDED = {"kv_transfer_params": {"prompt_token_ids": [1]}}


def found(form: str, **fields: Any) -> Unusual:
    return unusual(form, JsonBody(fields, 0))


@pytest.mark.parametrize("form", FORMS)
def test_a_salt(form: str) -> None:
    """All have it; an odd one is refused."""
    assert found(form, cache_salt="s") == Unusual(cache_salt="s")
    assert found(form, cache_salt=None) == USUAL
    for odd in ("", 5, "\ud800"):
        assert found(form, cache_salt=odd).unrendered == "cache_salt"


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("fields", "forms", "expected"),
    [
        (FORWARDED, "chat completions responses messages", Unusual(unrendered="forwarded_tokens")),
        (
            {"truncate_prompt_tokens": 5},
            "chat completions pooling",
            Unusual(unrendered="truncated", incomparable="truncated"),
        ),
        ({"truncate_prompt_tokens": -1}, "chat completions pooling", Unusual(incomparable="truncated")),
        ({"truncation": "auto"}, "responses", Unusual(incomparable="truncated")),
        ({"truncation": "disabled"}, "", USUAL),
        ({"background": True}, "responses", Unusual(incomparable="no_usage")),
        ({"padding": "max_length"}, "pooling", Unusual(unrendered="padded")),
        ({"padding": "do_not_pad"}, "", USUAL),
        ({"padding": []}, "pooling", Unusual(unrendered="padded")),
        ({"task": "token_embed"}, "pooling", Unusual(reads_cache=False)),
        ({"task": "embed"}, "", USUAL),
        ({"task": []}, "", USUAL),
        ({"n": 2}, "chat completions", Unusual(incomparable="several_choices")),
        ({"n": True}, "", USUAL),
        ({"prompt_logprobs": 0}, "chat completions", Unusual(incomparable="prompt_logprobs", reads_cache=False)),
        ({"prompt_embeds": "x"}, "chat completions", Unusual(unrendered="prompt_embeds")),
    ],
)
def test_fields_of_some(form: str, fields: dict[str, Any], forms: str, expected: Unusual) -> None:
    """The engine does not look at another form's."""
    assert found(form, **fields) == (expected if form in forms.split() else USUAL)


def test_echo_with_logprobs() -> None:
    """A chat has some unless it says it wants none; a completion only if it says so."""
    echoed = Unusual(incomparable="echo_logprobs", reads_cache=False)

    assert (found("chat", echo=True), found("chat", echo=True, top_logprobs=None)) == (echoed, USUAL)
    assert (found("completions", echo=True), found("completions", echo=True, logprobs=0)) == (USUAL, echoed)
