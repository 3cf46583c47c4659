"""Rendering: the sandbox, the special cases of vLLM, and faults that become reasons."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest
from jinja2 import TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from gateway.prompt.chat_prompt import ChatPrompt
from gateway.prompt.chat_template import ChatTemplate
from gateway.prompt.json_body import JsonBody
from gateway.prompt.unrendered import Unrendered
from tests.gateway.prompt.model_folders import CHATML

USER = {"role": "user", "content": "Hi"}
ROLES = "{% for m in messages %}[{{ m.role }}:{{ m.content }}]{% endfor %}"


def render(source: str, *, tokens: dict[str, str] | None = None, **fields: Any) -> str:
    body = JsonBody({"messages": [USER], **fields}, 0)
    template = ChatTemplate(source, tokens or {}, now=lambda: datetime(2026, 1, 2, 3, 4, 5))  # noqa: DTZ001
    return template.render(ChatPrompt.parse(body))


def test_renders_messages() -> None:
    """With the generation prompt, unless the client wants none."""
    assert render(CHATML) == "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    assert render(CHATML, add_generation_prompt=False) == "<|im_start|>user\nHi<|im_end|>\n"


def test_templates_have_what_transformers_gives_them() -> None:
    """Special tokens, unescaped JSON, the date, loop controls, generation blocks, trimmed blocks."""
    source = (
        "{{ bos_token }}{{ eos_token }}{{ {'a': '<ü>'} | tojson }}{{ [1] | tojson(indent=1) }}"
        "{{ strftime_now('%d %b %Y') }}"
        "{% for m in messages %}{% generation %}g{% endgeneration %}{% break %}{% endfor %}\n"
        "  {% if true %}\nx{% endif %}"
    )

    assert render(source, tokens={"bos_token": "<s>"}) == '<s>{"a": "<ü>"}[\n 1\n]02 Jan 2026gx'


def test_dates_are_local() -> None:
    """The engine prints its local date; so does a template without another clock."""
    template = ChatTemplate("{{ strftime_now('%Y') }}", {})

    assert template.render(ChatPrompt.parse(JsonBody({"messages": [USER]}, 0))).isdigit()


def test_kwargs_reach_only_templates_that_read_them() -> None:
    """And override special tokens, as in transformers."""
    source = "{{ bos_token }}{{ enable_thinking }}{{ documents | length }}"

    assert (
        render(
            source,
            tokens={"bos_token": "<s>"},
            documents=[{"title": "t"}],
            chat_template_kwargs={"enable_thinking": False, "bos_token": "<x>", "unknown": 1},
        )
        == "<x>False1"
    )


def test_tools_are_given() -> None:
    """In the engine's form, or none at all."""
    source = "{% if tools %}{{ tools[0].function.name }}{% else %}none{% endif %}"

    assert [render(source, tools=[{"function": {"name": "f"}}]), render(source)] == ["f", "none"]


@pytest.mark.parametrize(
    ("source", "text"),
    [
        (ROLES, "[user:Hi][assistant:The answer "),
        (ROLES.replace("m.content", "m.content | trim"), "[user:Hi][assistant:The answer"),
        ("{% for m in messages %}{% for c in m.content %}{{ c.text }};{% endfor %}{% endfor %}", "Hi;The answer "),
    ],
)
def test_continues_the_final_message(source: str, text: str) -> None:
    """The prompt stops inside it; white space that the template trims is trimmed."""
    messages = [USER, {"role": "assistant", "content": "The answer "}]

    assert text == render(source, messages=messages, continue_final_message=True, add_generation_prompt=False)


@pytest.mark.parametrize(
    ("source", "fields"),
    [
        (CHATML, {"add_generation_prompt": True}),
        ("{{ messages[0].content }}", {"messages": [USER, {"role": "assistant", "content": "gone"}]}),
        ("{{ messages[0].role }}", {}),
        (
            "{% for m in messages %}{% for c in m.content %}{{ c }}{% endfor %}{% endfor %}",
            {"messages": [{"role": "user", "content": []}]},
        ),
    ],
)
def test_what_cannot_be_continued_is_not_rendered(source: str, fields: dict[str, Any]) -> None:
    """Together with a generation prompt, or if the template drops the message."""
    with pytest.raises(Unrendered):
        render(source, **{"add_generation_prompt": False, "continue_final_message": True, **fields})


def test_developer_becomes_system() -> None:
    """For templates without that role: all system messages become one, in front."""
    system, developer = {"role": "system", "content": "S"}, {"role": "developer", "content": "D"}

    assert render(ROLES, messages=[developer, USER]) == "[system:D][user:Hi]"
    assert render(ROLES, messages=[developer, USER, system]) == "[system:D\n\nS][user:Hi]"
    assert render(ROLES, messages=[USER, system]) == "[user:Hi][system:S]"
    assert render(ROLES, messages=[{**developer, "content": []}, system]) == "[system:S]"
    assert render(ROLES + "{# 'developer' #}", messages=[developer]) == "[developer:D]"


@pytest.mark.parametrize(
    "source",
    [
        "{{ raise_exception('no') }}",
        "{{ messages[5].content }}",
        "{{ messages[0].content + 5 }}",
        "{{ 1 // 0 }}",
        "{{ messages | tojson | int | tojson(sort_keys=1) }}{{ undefined.x }}",
        "{{ messages.append(1) }}",
        "{{ ''.__class__.__mro__ }}{{ messages.__class__.x }}",
        "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
        "{{ range(10000000) | list }}",
        "{{ 'abc'.index('x') }}",
        "{{ {}.popitem() }}",
    ],
)
def test_faults_become_a_reason(source: str) -> None:
    """Whatever a template raises: the engine answers 400, here the prompt is unknown."""
    with pytest.raises(Unrendered) as unknown:
        render(source)

    assert unknown.value.reason == "template_error"


def test_malformed_templates_are_refused_at_once() -> None:
    """When compiled, not when rendered."""
    with pytest.raises(TemplateError):
        ChatTemplate("{% if %}", {})


@pytest.mark.parametrize("name", ["role", "content", "missing", "items", "keys", "get", "update", "pop", "__class__"])
def test_attributes_of_messages_read_as_in_jinjas_own_sandbox(name: str) -> None:
    """An item where a dictionary has no such attribute, else the attribute, if it is a safe one."""
    source = "{% for m in messages %}{{ m." + name + " is defined }}{{ m." + name + " is callable }}{% endfor %}"
    message = {**USER, "items": "an item behind a method"}
    ours = ChatTemplate(source, {})._environment.from_string(source)

    assert ours.render(messages=[message]) == ImmutableSandboxedEnvironment().from_string(source).render(
        messages=[message]
    )


def test_a_rendering_leaves_nothing_to_the_next() -> None:
    """Neither a template's own variables nor what a client set."""
    template = ChatTemplate("{{ x is defined }}{% set x = 1 %}{{ enable_thinking is defined }}", {})
    bodies: list[dict[str, Any]] = [
        {"messages": [USER], "chat_template_kwargs": {"enable_thinking": True}},
        {"messages": [USER]},
    ]

    assert [template.render(ChatPrompt.parse(JsonBody(body, 0))) for body in bodies] == ["FalseTrue", "FalseFalse"]


PICTURE = {"type": "image_url", "image_url": {"url": "data:"}}
OF_PARTS = (
    "{% for m in messages %}[{% for part in m.content %}"
    "{% if part.type == 'image' %}<pic>{% else %}{{ part.text }}{% endif %}{% endfor %}]{% endfor %}"
)


def test_of_a_chat_with_a_gap_only_the_text_before_it_is_rendered() -> None:
    """In its place where the template reads parts, in front of its message's text where it reads strings."""
    before, after = {"type": "text", "text": "before"}, {"type": "text", "text": "after"}
    messages = [USER, {"role": "user", "content": [before, PICTURE, after]}, USER]

    assert render(OF_PARTS, messages=messages) == "[Hi][before"
    assert render(ROLES, messages=messages) == "[user:Hi][user:"
    assert render(OF_PARTS, messages=[{"role": "user", "content": [{"type": "hologram"}]}]) == "["


def test_what_a_template_writes_for_the_sake_of_a_picture_is_no_text_before_it() -> None:
    """A head that only chats with pictures have, or only those without."""
    ahead = "{% if messages[0].content[1] is defined and messages[0].content[1].type == 'image' %}pictures!{% endif %}"
    messages = [{"role": "user", "content": [{"type": "text", "text": "x"}, PICTURE]}]

    assert render(f"head {ahead}{OF_PARTS}", messages=messages) == "head "
