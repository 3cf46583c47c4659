"""Chats as clients send them: bodies of /v1/chat/completions without a model."""

from __future__ import annotations

from typing import Any

Body = dict[str, Any]

_USER = {"role": "user", "content": "Grüß dich! 你好 😀 <|im_end|> [gMASK] it's 12345\n\n  ok"}
_SYSTEM = {"role": "system", "content": "You are héłpful.\nBe brief."}
_ASSISTANT = {"role": "assistant", "content": "Hello!  How can I help?\n"}
_CALL = {
    "role": "assistant",
    "content": "",
    "tool_calls": [
        {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Köln", "days": 3}'}}
    ],
}
_RESULT = {"role": "tool", "tool_call_id": "c1", "content": '{"temperature": 21.5}'}
_TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "weather",
            "description": "Wetter für <eine> Stadt",
            "parameters": {
                "type": "object",
                "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
                "required": ["city"],
            },
        },
    }
]


def _body(*messages: dict[str, Any], **fields: Any) -> Body:
    return {"messages": list(messages), **fields}


CHATS: dict[str, Body] = {
    "one turn": _body(_USER),
    "system": _body(_SYSTEM, _USER),
    "two turns": _body(_SYSTEM, _USER, _ASSISTANT, _USER),
    "twenty turns": _body(_SYSTEM, *[_USER, _ASSISTANT] * 20, _USER),
    "tools": _body(_SYSTEM, _USER, tools=_TOOLS),
    "tools without system": _body(_USER, tools=_TOOLS),
    "tool call and result": _body(_SYSTEM, _USER, _CALL, _RESULT, tools=_TOOLS),
    "answer after a tool call": _body(_SYSTEM, _USER, _CALL, _RESULT, _ASSISTANT, _USER, tools=_TOOLS),
    "tool choice none": _body(_USER, tools=_TOOLS, tool_choice="none"),
    "reasoning": _body(_USER, {**_ASSISTANT, "reasoning_content": "Let me think."}, _USER),
    "thinking in the content": _body(_USER, {"role": "assistant", "content": "<think>\nhm\n</think>\n\nyes"}, _USER),
    "no generation prompt": _body(_USER, _ASSISTANT, add_generation_prompt=False),
    "continued": _body(
        _USER,
        {"role": "assistant", "content": "The answer is "},
        continue_final_message=True,
        add_generation_prompt=False,
    ),
    "thinking off": _body(_USER, chat_template_kwargs={"enable_thinking": False}),
    "thinking on": _body(_SYSTEM, _USER, chat_template_kwargs={"enable_thinking": True, "thinking": True}),
    "documents": _body(_USER, documents=[{"title": "T", "text": "x"}]),
    "white space": _body({"role": "user", "content": " \t a\r\n\n\n b  "}),
    "empty": _body({"role": "user", "content": ""}),
    "text parts": _body(
        {"role": "user", "content": [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]}
    ),
}
