"""Tries a model's chat templates, as vLLM does before it serves /v1/messages."""

from __future__ import annotations

from collections.abc import Mapping

from jinja2 import TemplateError
from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

from gateway.prompt.chat_form import read_chat_form
from gateway.prompt.chat_template import ChatTemplate
from gateway.prompt.template_manners import TemplateManners
from gateway.prompt.unrendered import Unrendered

_EFFORTS = ("low", "medium", "high", "xhigh", "max")
_SYSTEM_LATER = [{"role": role, "content": "t"} for role in ("system", "user", "system", "user")]


def manners_of(templates: Mapping[str, ChatTemplate]) -> TemplateManners:
    """Of a model's templates by name. A setting of the server's (--disabled-thinking-effort) is not known here."""
    default = templates.get("default")
    return TemplateManners(
        system_first=any(_wants_system_first(template.source) for template in templates.values()),
        thinking_off="none" if default is None else _thinking_off(default),
    )


def _wants_system_first(source: str) -> bool:
    """Tried in a bare environment, as vLLM does: what a template cannot do there counts as a refusal, too."""
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols])
    try:
        environment.from_string(source).render(messages=_SYSTEM_LATER, add_generation_prompt=False)
    except TemplateError:
        return True
    except Exception:  # noqa: BLE001 - any: vLLM would not have started
        return False
    return False


def _thinking_off(template: ChatTemplate) -> str:
    """``none``, unless the template refuses it or takes it for another effort."""
    prompt = _prompt_at(template, "none")
    if prompt is None or any(_prompt_at(template, effort) == prompt for effort in _EFFORTS):
        return "low"
    return "none"


def _prompt_at(template: ChatTemplate, effort: str) -> str | None:
    try:
        chat = read_chat_form([{"role": "user", "content": "Hi"}], {"reasoning_effort": effort}, size=0)
        return template.render(chat)
    except Unrendered:
        return None
