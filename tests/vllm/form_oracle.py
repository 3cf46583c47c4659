"""What vLLM's own code makes of bodies of /v1/responses and /v1/messages. Runs in vLLM's environment, by its Python.

Standard input: ``{"responses": [body, ..], "messages": [body, ..]}``; standard output: what is recorded in
``tests/data/forms``. It imports nothing of this project.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

from vllm.entrypoints.anthropic.protocol import AnthropicMessagesRequest  # type: ignore[import-not-found]
from vllm.entrypoints.anthropic.serving import AnthropicServingMessages  # type: ignore[import-not-found]
from vllm.entrypoints.openai.responses.protocol import ResponsesRequest  # type: ignore[import-not-found]
from vllm.entrypoints.openai.responses.utils import construct_input_messages, construct_tool_dicts  # type: ignore[import-not-found]
from vllm.exceptions import VLLMValidationError  # type: ignore[import-not-found]

Made = dict[str, Any]


def main() -> None:
    bodies = json.load(sys.stdin)
    made = {
        "responses": [{"body": body, **_made(_of_responses, body)} for body in bodies["responses"]],
        "messages": [
            {
                "body": body,
                "made": _made(_of_messages, body, False, "none"),
                "made_system_first_and_low": _made(_of_messages, body, True, "low"),
            }
            for body in bodies["messages"]
        ],
    }
    json.dump(made, sys.stdout)


def _made(make: Callable[..., Made], *arguments: Any) -> Made:
    try:
        return make(*arguments)
    except (VLLMValidationError, ValueError, AttributeError, LookupError):
        return {"refused": True}


def _of_responses(body: Made) -> Made:
    request = ResponsesRequest(model="m", **json.loads(json.dumps(body)))
    messages = construct_input_messages(request_instructions=request.instructions, request_input=request.input)
    return _chat(messages, construct_tool_dicts(request.tools, request.tool_choice), request)


def _of_messages(body: Made, system_first: bool, thinking_off: str) -> Made:
    request = AnthropicMessagesRequest(model="m", max_tokens=9000, **json.loads(json.dumps(body)))
    chat = AnthropicServingMessages.to_chat_completion_request(
        request, merge_inline_system=system_first, disabled_thinking_effort=thinking_off
    )
    return _chat(chat.messages, None if chat.tools is None else [tool.model_dump() for tool in chat.tools], chat)


def _chat(messages: Any, tools: Any, request: Any) -> Made:
    kwargs = request.build_chat_params(None, "auto").chat_template_kwargs
    return {"messages": _plain(messages), "tools": _plain(tools), "kwargs": _plain(kwargs)}


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(inner) for name, inner in value.items()}
    if value is None or isinstance(value, str | int | float):
        return value
    return [_plain(inner) for inner in value]  # lists, and pydantic's iterators


if __name__ == "__main__":
    main()
