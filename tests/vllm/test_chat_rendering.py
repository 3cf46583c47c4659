"""Every chat with every template: the gateway's text is that of vLLM's own code. Needs its environment, no server."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from gateway.prompt.chat_prompt import ChatPrompt
from gateway.prompt.chat_template import ChatTemplate
from gateway.prompt.json_body import JsonBody
from gateway.prompt.unrendered import Unrendered
from tests.gateway.prompt.chat_corpus import CHATS, ENGINE_CHATS, Body
from tests.gateway.prompt.template_corpus import SPECIAL_TOKENS, all_templates


def ask_vllm(templates: dict[str, str], bodies: list[Body]) -> dict[str, Any]:
    environment = os.environ.get("VLLM_ENV")
    if not environment:
        pytest.fail("run `make test-vllm`: it installs vLLM and sets VLLM_ENV")
    answer = subprocess.run(
        [str(Path(environment) / "bin/python"), str(Path(__file__).with_name("render_chats.py"))],
        input=json.dumps({"templates": templates, "special_tokens": SPECIAL_TOKENS, "bodies": bodies}),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    rendered: dict[str, Any] = json.loads(answer.stdout[answer.stdout.index("{") :])
    return rendered


def our_text(template: ChatTemplate, body: Body) -> str | None:
    try:
        return template.render(ChatPrompt.parse(JsonBody(body, 0)))
    except Unrendered:
        return None


def test_texts_equal_vllms() -> None:
    """Byte for byte, or both refuse; and both find the same content format."""
    templates, bodies = all_templates(), {**CHATS, **ENGINE_CHATS}
    rendered = 0
    for name, theirs in ask_vllm(templates, list(bodies.values())).items():
        template = ChatTemplate(templates[name], SPECIAL_TOKENS)

        assert template.content_format == theirs["format"], name
        for (title, body), text in zip(bodies.items(), theirs["texts"], strict=True):
            assert our_text(template, body) == text, (name, title)
            rendered += text is not None

    assert rendered > 4_000
