"""Chats as clients send them: bodies of /v1/chat/completions without a model.

:data:`CHATS` say what a template gets but for its content format; of :data:`ENGINE_CHATS` vLLM changes something first.
"""

from __future__ import annotations

from typing import Any

Body = dict[str, Any]

_USER: dict[str, Any] = {"role": "user", "content": "Grüß dich! 你好 😀 <|im_end|> [gMASK] it's 12345\n\n  ok"}
_SYSTEM = {"role": "system", "content": "You are héłpful.\nBe brief."}
_ASSISTANT: dict[str, Any] = {"role": "assistant", "content": "Hello!  How can I help?\n"}


def _call(call_id: str, arguments: str, name: str = "weather") -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


_CALL: dict[str, Any] = {"role": "assistant", "content": "", "tool_calls": [_call("c1", '{"city": "Köln", "days": 3}')]}
_CALLS: dict[str, Any] = {
    "role": "assistant",
    "content": "",
    "tool_calls": [
        _call("c1", '{"city": "Köln"}'),
        _call("c2", '{"query": "a \\"b\\"", "where": {"city": "Bern", "tags": ["x"]}, "limit": null}', "search"),
    ],
}
_RESULT: dict[str, Any] = {"role": "tool", "tool_call_id": "c1", "content": '{"temperature": 21.5}'}
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

_MANY_TOOLS = [
    *_TOOLS,
    {
        "type": "function",
        "function": {
            "name": "search",
            "description": 'Finds "things" & more.\nAlways.',
            "parameters": {
                "type": "object",
                "properties": {
                    "query": {"type": "string", "description": "What", "enum": ["a", "b"], "default": "a"},
                    "limit": {"type": ["integer", "null"], "minimum": 1},
                    "where": {
                        "type": "object",
                        "properties": {
                            "city": {"type": "string"},
                            "tags": {"type": "array", "items": {"type": "string"}},
                        },
                        "required": ["city"],
                    },
                    "either": {"anyOf": [{"type": "string"}, {"type": "number"}]},
                },
                "required": ["query", "where"],
                "additionalProperties": False,
            },
        },
    },
    {
        "type": "function",
        "function": {"name": "now", "description": "", "parameters": {"type": "object", "properties": {}}},
    },
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
    "parts on both sides": _body(
        {"role": "system", "content": [{"type": "text", "text": "Be brief."}]},
        {"role": "user", "content": [{"type": "text", "text": "Hi"}]},
        {"role": "assistant", "content": [{"type": "text", "text": "Hello"}, {"type": "text", "text": "you"}]},
        _USER,
    ),
    "two systems": _body(_SYSTEM, _USER, _ASSISTANT, {"role": "system", "content": "Now in French."}, _USER),
    "assistant first": _body(_ASSISTANT, _USER),
    "two users": _body(_USER, {"role": "user", "content": "and this"}),
    "ends with the assistant": _body(_USER, _ASSISTANT),
    "system alone": _body(_SYSTEM),
    "parallel calls": _body(_USER, _CALLS, _RESULT, {**_RESULT, "tool_call_id": "c2"}, tools=_MANY_TOOLS),
    "calls in every turn": _body(*[_USER, _CALL, _RESULT, _ASSISTANT] * 4, _USER, tools=_MANY_TOOLS),
    "call last": _body(_USER, _CALL, tools=_TOOLS),
    "call without tools": _body(_USER, _CALL, _RESULT),
    "text beside a call": _body(_USER, {**_CALL, "content": "Let me look."}, _RESULT, tools=_TOOLS),
    "many tools": _body(_SYSTEM, _USER, tools=_MANY_TOOLS, tool_choice="auto"),
    "tool required": _body(_USER, tools=_TOOLS, tool_choice="required"),
    "tool named": _body(_USER, tools=_TOOLS, tool_choice={"type": "function", "function": {"name": "weather"}}),
    "reasoning beside a call": _body(_USER, {**_CALL, "reasoning_content": "Look it up."}, _RESULT, tools=_TOOLS),
    "reasoning of old": _body(
        *[_USER, {**_ASSISTANT, "reasoning_content": "Old."}] * 2, _USER, {**_ASSISTANT, "reasoning_content": "New."}
    ),
    "thinking in a long history": _body(
        *[_USER, {"role": "assistant", "content": "<think>\na\n</think>\nb</think>c"}] * 3, _USER
    ),
    "special texts": _body(
        {"role": "user", "content": "<|eot_id|>[INST]</s><think></think><start_of_turn>{{ x }}{% y"}
    ),
    "lines": _body({"role": "user", "content": "a\u2028b\u0085c\x0bd\x00e\ufeff"}),
    "continued in parts": _body(
        _USER,
        {"role": "assistant", "content": [{"type": "text", "text": "One"}, {"type": "text", "text": "two "}]},
        continue_final_message=True,
        add_generation_prompt=False,
    ),
    "continued after a call": _body(
        _USER,
        _CALL,
        _RESULT,
        {"role": "assistant", "content": "It is"},
        tools=_TOOLS,
        continue_final_message=True,
        add_generation_prompt=False,
    ),
    "continued user": _body(_USER, continue_final_message=True, add_generation_prompt=False),
    "no generation prompt after a user": _body(_SYSTEM, _USER, add_generation_prompt=False),
    "several kwargs": _body(
        _SYSTEM,
        _USER,
        chat_template_kwargs={"date_string": "1 Jan 2030", "tools_in_user_message": False, "preserve_thinking": True},
        tools=_TOOLS,
    ),
    "kwargs of documents": _body(
        _USER, chat_template_kwargs={"documents": [{"doc_id": "1", "title": "ü", "text": "x"}]}
    ),
    "many documents": _body(
        _SYSTEM, _USER, _ASSISTANT, _USER, documents=[{"title": f"T{i}", "text": "x\n" * i} for i in range(4)]
    ),
    "unknown role": _body(_USER, {"role": "critic", "content": "hm"}, _USER),
    "long": _body({"role": "user", "content": "lorem ipsum dolor " * 2_000}),
}

#: What of them vLLM has to change before a template sees it.
ENGINE_CHATS: dict[str, Body] = {
    "developer": _body({"role": "developer", "content": "Be brief."}, _USER),
    "developer and system": _body(_SYSTEM, {"role": "developer", "content": "Be brief."}, _USER),
    "developer later": _body(_USER, _ASSISTANT, {"role": "developer", "content": "Now in French."}, _USER),
    "no content beside a call": _body(_USER, {**_CALL, "content": None}, _RESULT, tools=_TOOLS),
    "no content": _body(_USER, {"role": "assistant", "content": None}, _USER),
    "odd arguments": _body(
        _USER,
        *[
            {"role": "assistant", "content": "", "tool_calls": [_call("c", arguments)]}
            for arguments in ("", "not json", "[1]", '{"b": 1, "a": {"ü": [null, true, 1e3]}}')
        ],
        tools=_TOOLS,
    ),
    "fields in another order": _body(
        _USER,
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"type": "function", "function": {"arguments": "{}", "name": "weather"}, "id": "c1"}],
        },
        tools=[{"function": {"parameters": {}, "name": "weather"}, "type": "function"}],
    ),
    "bare tools": _body(_USER, tools=[{"type": "function", "function": {"name": "now"}}]),
    "strict tools": _body(
        _USER, tools=[{"type": "function", "function": {"name": "now", "strict": True, "unknown": 1}, "extra": 1}]
    ),
    "empty calls": _body(_USER, {**_ASSISTANT, "tool_calls": []}, _USER),
    "no tools": _body(_USER, tools=None),
    "empty tools": _body(_USER, tools=[]),
    "tool answer in parts": _body(
        _USER,
        _CALL,
        {**_RESULT, "content": [{"type": "text", "text": "21"}, {"type": "text", "text": "degrees"}]},
        tools=_TOOLS,
    ),
    "names": _body({**_USER, "name": "Ann"}, _ASSISTANT, {**_USER, "name": "Bob"}),
    "other text parts": _body(
        _USER,
        {
            "role": "assistant",
            "content": [{"type": "refusal", "refusal": "No."}, {"type": "thinking", "thinking": "hm"}],
        },
        {"role": "user", "content": [{"type": "text", "text": ""}, {"type": "text", "text": "a", "x": 1}]},
    ),
    "reasoning by its new name": _body(_USER, {**_ASSISTANT, "reasoning": "Let me think."}, _USER),
    "effort none": _body(_USER, reasoning_effort="none"),
    "effort high": _body(_SYSTEM, _USER, reasoning_effort="high"),
    "effort beside kwargs": _body(_USER, reasoning_effort="low", chat_template_kwargs={"enable_thinking": False}),
    "kwargs without effect": _body(_USER, chat_template_kwargs={"x": None, "max_length": 5, "padding": True}),
    "flags in kwargs": _body(_USER, chat_template_kwargs={"add_generation_prompt": False}),
    "billing line": _body({"role": "system", "content": "x-anthropic-billing-header: cch=1;\nYou are helpful."}, _USER),
    "continued and prompted": _body(_USER, _ASSISTANT, continue_final_message=True, add_generation_prompt=True),
}
