"""ChatPrompt: what of a chat body goes into the prompt. Knows no template and no tokenizer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from gateway.prompt.json_body import JsonBody
from gateway.prompt.messages import Message, first_gap, read_messages
from gateway.prompt.template_manners import TemplateManners
from gateway.prompt.tools import Tool, read_tools
from gateway.prompt.unrendered import Unrendered

# Arguments of `apply_chat_template` that do nothing to the text; others that a client must not set.
_WITHOUT_EFFECT = frozenset(
    {"padding", "truncation", "max_length", "return_tensors", "return_dict", "tokenizer_kwargs"}
)
_RESERVED = frozenset(
    {
        "conversation",
        "messages",
        "tools",
        "tokenize",
        "return_assistant_tokens_mask",
        "sanitize_control_tokens",
    }
)
_KWARG_FIELDS = frozenset({"chat_template_kwargs", "reasoning_effort", "documents"})
_NO_KWARGS: Mapping[str, Any] = {}
_UNSET = (None, "auto")  # vLLM's merge_kwargs: such values do not override


@dataclass(slots=True)
class ChatPrompt:
    """``messages`` and ``tools`` are normalised; ``raw_*`` are the client's, for the engine's /tokenize. ``gap`` says
    why only the text before some message's part can be known; "": all of it can. ``suit`` makes the one for the model's
    templates, where it depends on them. Nobody changes one that was parsed.
    """

    messages: Sequence[Message]
    tools: Sequence[Tool] | None
    template_kwargs: Mapping[str, Any]
    add_generation_prompt: bool
    continue_final_message: bool
    raw_messages: Sequence[Any]
    raw_tools: Sequence[Any] | None
    gap: str = field(init=False)
    suit: Callable[[TemplateManners], ChatPrompt] | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        self.gap = first_gap(self.messages)

    @classmethod
    def parse(cls, body: JsonBody) -> Self:
        """Raises :class:`Unrendered` where what the engine will render cannot be known here."""
        if body.get("chat_template") is not None:
            raise Unrendered("client_template")
        raw_messages, raw_tools = body.get("messages"), body.get("tools")
        return cls(
            messages=read_messages(raw_messages),
            tools=read_tools(raw_tools),
            template_kwargs=_template_kwargs(body),
            add_generation_prompt=body.flag("add_generation_prompt", default=True),
            continue_final_message=body.flag("continue_final_message", default=False),
            raw_messages=raw_messages,
            raw_tools=raw_tools,
        )


def _template_kwargs(body: JsonBody) -> Mapping[str, Any]:
    """What the template gets besides messages, tools and the two flags; those win over kwargs."""
    if _KWARG_FIELDS.isdisjoint(body.fields):
        return _NO_KWARGS
    kwargs = body.get("chat_template_kwargs")
    if kwargs is None:
        kwargs = {}
    if not isinstance(kwargs, dict) or _RESERVED & kwargs.keys():
        raise Unrendered("kwargs")
    if "chat_template" in kwargs:
        raise Unrendered("client_template")
    effort, documents = body.get("reasoning_effort"), body.get("documents")
    own = {"documents": documents, "reasoning_effort": effort}
    if effort is not None and "enable_thinking" not in kwargs:
        own["enable_thinking"] = effort != "none"
    merged = kwargs | {name: value for name, value in own.items() if value not in _UNSET}
    _check_documents(merged.get("documents"))
    ignored = _WITHOUT_EFFECT | {"add_generation_prompt", "continue_final_message"}
    return {name: value for name, value in merged.items() if name not in ignored and value not in _UNSET}


def _check_documents(documents: object) -> None:
    if documents is None:
        return
    if not isinstance(documents, list) or not all(isinstance(document, dict) for document in documents):
        raise Unrendered("documents")
