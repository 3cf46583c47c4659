"""What vLLM's own code made of bodies of other forms (``tests/data/forms``), and arbitrary bodies."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from gateway.prompt.chat_prompt import ChatPrompt
from gateway.prompt.json_body import JsonBody

FOLDER = Path(__file__).parents[2] / "data" / "forms"
FIRST_USER = [{"role": "user", "content": "hi"}]
SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}}
_UNSET = (None, "auto")


def recorded(form: str) -> list[dict[str, Any]]:
    """``form``: responses or messages."""
    cases: list[dict[str, Any]] = json.loads((FOLDER / f"{form}.json").read_text())
    return cases


def body_of(**fields: Any) -> JsonBody:
    return JsonBody(fields, 0)


def as_vllm_has_it(made: dict[str, Any]) -> dict[str, Any]:
    """The chat that vLLM made, its messages read as those of a chat."""
    kwargs = {name: value for name, value in made["kwargs"].items() if value not in _UNSET}
    flags = {name: kwargs.pop(name) for name in ("add_generation_prompt", "continue_final_message")}
    chat = ChatPrompt.parse(JsonBody({"messages": made["messages"]}, 0))
    return {"messages": chat.messages, "tools": json.dumps(made["tools"]), "kwargs": kwargs, **flags}


def as_we_have_it(chat: ChatPrompt) -> dict[str, Any]:
    """Tools as text: templates print them, so the order of their fields counts."""
    return {
        "messages": chat.messages,
        "tools": json.dumps(chat.tools),
        "kwargs": dict(chat.template_kwargs),
        "add_generation_prompt": chat.add_generation_prompt,
        "continue_final_message": chat.continue_final_message,
    }


_KINDS = ["message", "function_call", "function_call_output", "custom_tool_call", "reasoning", "function", "custom"]
_BLOCKS = ["text", "image", "tool_use", "tool_result", "thinking", "tool_addition", "tool_removal", "namespace"]
_WORDS = st.sampled_from([*_KINDS, *_BLOCKS, "user", "assistant", "system", "disabled", "x", ""])
_FIELDS = ["type", "role", "content", "text", "id", "name", "input", "output", "arguments", "call_id", "tool", "tools"]
_MORE = ["source", "summary", "thinking", "definition", "input_schema", "parameters", "namespace", "status", "effort"]
_NAMES = st.sampled_from([*_FIELDS, *_MORE])
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | _WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_NAMES, inner, max_size=5),
    max_leaves=12,
)


def arbitrary_fields(*names: str) -> st.SearchStrategy[dict[str, Any]]:
    """Bodies whose fields are of about the right shape, or of none."""
    return st.dictionaries(st.sampled_from(names), _VALUES, max_size=len(names))
