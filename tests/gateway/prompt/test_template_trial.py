"""What vLLM finds out by trying a template is found out here."""

from __future__ import annotations

import pytest

from gateway.prompt.chat_template import ChatTemplate
from gateway.prompt.template_trial import manners_of
from tests.gateway.prompt.model_folders import CHATML

GUARDED = """{%- for m in messages %}{%- if m.role == 'system' and not loop.first %}
{{- raise_exception('System message must be at the beginning.') }}{%- endif %}{{- m.content }}{%- endfor %}"""
SWITCHED = (
    "{% for m in messages %}{{ m.content }}{% endfor %}{% if enable_thinking is false %}<think></think>{% endif %}"
)
UNAWARE = "{% for m in messages %}{{ m.content }}{% endfor %}{{ 'max' if reasoning_effort != 'low' else 'low' }}"
REFUSING = "{% if reasoning_effort == 'none' %}{{ raise_exception('no') }}{% endif %}{{ messages[0].content }}"


def template(source: str) -> ChatTemplate:
    return ChatTemplate(source, {"bos_token": "<s>"})


@pytest.mark.parametrize(
    ("source", "system_first"),
    [
        (CHATML, False),
        (GUARDED, True),
        ("{% for m in messages %}{% generation %}{{ m.content }}{% endgeneration %}{% endfor %}", True),
        ("{{ strftime_now('%d') }}", True),
        ("{{ bos_token }}{{ messages[0].content }}", False),
        ("{{ bos_token + messages[0].content }}", True),
        ("{{ 1 / 0 }}", False),
    ],
)
def test_where_system_messages_may_stand(source: str, system_first: bool) -> None:
    """vLLM tries it without a model's tokens and functions: what fails for want of them counts as a refusal."""
    assert manners_of({"default": template(source)}).system_first is system_first


def test_one_template_that_wants_it_is_enough() -> None:
    """There may be another for tools."""
    assert manners_of({"default": template(CHATML), "tool_use": template(GUARDED)}).system_first


@pytest.mark.parametrize(
    ("source", "effort"), [(SWITCHED, "none"), (UNAWARE, "low"), (REFUSING, "low"), (CHATML, "low")]
)
def test_the_effort_of_no_thinking(source: str, effort: str) -> None:
    """``none``, where the template tells it from the others."""
    assert manners_of({"default": template(source)}).thinking_off == effort


def test_without_a_default_template() -> None:
    """Nothing to try."""
    assert manners_of({}) == (False, "none")
