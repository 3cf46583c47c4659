"""Chats as vLLM renders them: a program for the interpreter of vLLM's own environment.

Reads ``{"templates": {name: source}, "special_tokens": {..}, "bodies": [..]}`` from standard input, and writes
``{name: {"format": .., "texts": [..]}}``: the content format that vLLM finds, and for each body the text; null where
vLLM refuses it. No server, no model, no tokenizer file: only the code between a request and ``apply_chat_template``.
"""

from __future__ import annotations

import json
import logging
import sys
from types import SimpleNamespace
from typing import Any


def main() -> None:
    logging.disable(logging.CRITICAL)
    task = json.load(sys.stdin)
    tokenizer = make_tokenizer(task["special_tokens"])
    rendered = {name: render_all(tokenizer, source, task["bodies"]) for name, source in task["templates"].items()}
    json.dump(rendered, sys.stdout)


def make_tokenizer(special_tokens: dict[str, str]) -> Any:
    import tokenizers
    from transformers import PreTrainedTokenizerFast

    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0}, unk_token="a")), **special_tokens
    )


def render_all(tokenizer: Any, source: str, bodies: list[Any]) -> dict[str, Any]:
    from vllm.renderers.hf import resolve_chat_template_content_format  # type: ignore[import-not-found]

    config = SimpleNamespace(
        multimodal_config=None, enable_prompt_embeds=False, trust_remote_code=False, revision=None, code_revision=None
    )
    content_format = resolve_chat_template_content_format(source, None, "auto", tokenizer, model_config=config)
    texts = [render(tokenizer, config, source, content_format, body) for body in bodies]
    return {"format": content_format, "texts": texts}


def render(tokenizer: Any, config: Any, source: str, content_format: Any, body: Any) -> str | None:
    from vllm.entrypoints.openai.chat_completion.protocol import (  # type: ignore[import-not-found]
        ChatCompletionRequest,
    )
    from vllm.renderers.chat_utils import parse_chat_messages  # type: ignore[import-not-found]
    from vllm.renderers.hf import safe_apply_chat_template

    try:
        request = ChatCompletionRequest.model_validate({"model": "m", **body})
        tools = None if request.tools is None else [tool.model_dump() for tool in request.tools]
        params = request.build_chat_params(source, "auto").with_defaults({"tools": tools, "tokenize": False})
        conversation, _, _ = parse_chat_messages(request.messages, config, content_format)
        kwargs = params.get_apply_chat_template_kwargs()
        text: str = safe_apply_chat_template(config, tokenizer, conversation, **kwargs)
    except Exception:  # noqa: BLE001 - whatever it is, vLLM answers with an error
        return None
    return text


if __name__ == "__main__":
    main()
