"""/v1/messages becomes the chat that vLLM makes of it, for either kind of template."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given

from gateway.prompt.anthropic_prompt import read_anthropic
from gateway.prompt.chat_prompt import ChatPrompt
from gateway.prompt.json_body import JsonBody
from gateway.prompt.template_manners import TemplateManners
from gateway.prompt.unrendered import Unrendered
from tests.gateway.prompt.recorded_forms import (
    FIRST_USER,
    arbitrary_fields,
    as_vllm_has_it,
    as_we_have_it,
    body_of,
    recorded,
)

CASES = recorded("messages")
MANNERS = {"made": TemplateManners(), "made_system_first_and_low": TemplateManners(True, "low")}
FIELDS = ("messages", "system", "tools", "thinking", "output_config", "chat_template_kwargs")


def read(body: dict[str, Any], manners: TemplateManners) -> ChatPrompt:
    chat = read_anthropic(JsonBody(body, 0))
    return chat if chat.suit is None else chat.suit(manners)


@pytest.mark.parametrize("name", MANNERS)
def test_every_recorded_body_becomes_vllms_chat(name: str) -> None:
    """Messages, tools, and what else the template gets."""
    made = [case for case in CASES if case[name].get("messages")]
    assert len(made) > 100
    for case in made:
        assert as_we_have_it(read(case["body"], MANNERS[name])) == as_vllm_has_it(case[name]), case["body"]


def test_what_vllm_refuses_is_not_rendered() -> None:
    """None of the recorded ones."""
    refused = [case["body"] for case in CASES if case["made"].get("refused")]
    assert refused
    for body in refused:
        with pytest.raises(Unrendered):
            read_anthropic(JsonBody(body, 0))


@pytest.mark.parametrize(
    ("fields", "depends"),
    [
        ({}, False),
        ({"system": "s", "thinking": {"type": "enabled", "budget_tokens": 2000}}, False),
        ({"messages": [*FIRST_USER, {"role": "system", "content": "s"}]}, True),
        ({"thinking": {"type": "disabled"}}, True),
    ],
)
def test_only_some_depend_on_the_template(fields: dict[str, Any], depends: bool) -> None:
    """Those with instructions in between, and those that want no thinking."""
    chat = read_anthropic(JsonBody({"messages": FIRST_USER, **fields}, 0))

    assert (chat.suit is not None) is depends


def test_a_changed_attribution_changes_no_prompt() -> None:
    """Claude Code sends another one with each request: as a block of its own, or in front of a text."""

    def prompt(line: str, system: Any) -> Any:
        return read_anthropic(
            body_of(messages=FIRST_USER, system=system(f"x-anthropic-billing-header: {line}"))
        ).messages

    for form in (
        lambda line: [{"type": "text", "text": line}, {"type": "text", "text": "s"}],
        lambda line: f"{line}\ns",
    ):
        assert prompt("cch=1;", form) == prompt("cch=2;", form)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"messages": None}, "messages"),
        ({"messages": []}, "messages"),
        ({"messages": ["x"]}, "messages"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "messages"),
        ({"messages": [{"role": "user", "content": 5}]}, "content"),
        ({"system": 5}, "content"),
        ({"system": [{"type": "text", "text": 5}]}, "content"),
        ({"tools": [{"type": "web_search_20250305", "name": "web_search"}]}, "tools"),
        ({"output_config": "high"}, "kwargs"),
        ({"output_config": {"effort": 1}}, "kwargs"),
        ({"chat_template_kwargs": {"chat_template": "y"}}, "client_template"),
    ],
)
def test_what_cannot_be_known_has_a_reason(fields: dict[str, Any], reason: str) -> None:
    """The replica decides what it is."""
    with pytest.raises(Unrendered) as unknown:
        read_anthropic(JsonBody({"messages": FIRST_USER, **fields}, 0))

    assert reason == unknown.value.reason


@given(arbitrary_fields(*FIELDS))
def test_arbitrary_fields_are_read_or_have_a_reason(fields: dict[str, Any]) -> None:
    """For each kind of template; and the client's own stay as they are."""
    before = json.dumps(fields)
    for manners in MANNERS.values():
        with contextlib.suppress(Unrendered):
            read(fields, manners)

    assert json.dumps(fields) == before
