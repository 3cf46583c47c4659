"""ChatTemplate: a model's own chat template, compiled once; messages in, prompt text out.

Gives byte for byte what transformers' ``apply_chat_template(tokenize=False)`` gives inside vLLM (0.32): the
same sandbox, filters, functions and special tokens, and vLLM's handling of content shapes and of the
developer role. Templates come from the model's files only. One sent by a client is never compiled: a line of
jinja can cost seconds.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NoReturn

from jinja2 import TemplateError, nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.meta import find_undeclared_variables
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from gateway.prompt.beginning import common_beginning
from gateway.prompt.chat_prompt import ChatPrompt
from gateway.prompt.content_format import content_format
from gateway.prompt.messages import Message, fill_gaps, in_format
from gateway.prompt.unrendered import Unrendered

# What a template can raise on messages it was not written for; the engine answers 400 to all of it.
_TEMPLATE_FAULTS = (
    TemplateError,
    TypeError,
    ValueError,
    LookupError,
    ArithmeticError,
    AttributeError,
    AssertionError,
    RuntimeError,
)
_DICT_ATTRIBUTES = frozenset(dir(dict))
# Marks where the final message ends; the trailing space shows whether the template strips it.
_TAG = "CONTINUE_FINAL_MESSAGE_TAG "
# Two texts that no template and no client writes, with no common beginning.
_FILLERS = ("\ue123GAP", "\uf456GAP")


class _Generation(Extension):
    """``{% generation %}``: marks the assistant's tokens for training; to us it is its body."""

    tags = {"generation"}  # noqa: RUF012 - declared so by jinja

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        body: list[nodes.Node] = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return body


class _Environment(ImmutableSandboxedEnvironment):
    """The sandbox of transformers, with a shortcut for what templates do most."""

    def getattr(self, obj: Any, attribute: str) -> Any:
        """``message.role``: a plain dictionary has no such attribute, so the sandbox would end up at its item too."""
        if type(obj) is dict and attribute not in _DICT_ATTRIBUTES:
            try:
                return obj[attribute]
            except KeyError:
                return self.undefined(obj=obj, name=attribute)
        return super().getattr(obj, attribute)


def local_now() -> datetime:
    """What ``strftime_now`` shows: engines print their local time (UTC in most containers), and so do we."""
    return datetime.now()  # noqa: DTZ005


class ChatTemplate:
    """``special_tokens``: what the template reads as ``bos_token`` etc. Raises ``TemplateError`` if malformed."""

    def __init__(self, source: str, special_tokens: Mapping[str, str], now: Callable[[], datetime] = local_now) -> None:
        environment = _environment(now)
        tree = environment.parse(source)
        self._template = environment.from_string(source)
        self.source = source
        self._environment = environment
        self._constants = {**environment.globals, "documents": None, **special_tokens}
        self._variables = find_undeclared_variables(tree)
        self._knows_developer = '"developer"' in source or "'developer'" in source
        self.content_format = content_format(tree)

    def render(self, chat: ChatPrompt) -> str:
        """The prompt's text; of a chat with a gap, only what is certain to come before it.

        Raises :class:`Unrendered` where the engine would answer 400.
        """
        if not chat.gap:
            return self._rendered(chat.messages, chat)
        return common_beginning(*(self._rendered(filled, chat) for filled in self._filled(chat)))

    def _filled(self, chat: ChatPrompt) -> Iterator[list[Message]]:
        """The chat as the engine renders it, and with texts in the place of all else. What a template writes in front
        of its first gap, and for the sake of one, is not in both.
        """
        for filler, keep_parts in zip(_FILLERS, (True, False)):
            yield fill_gaps(chat.messages, self.content_format, filler, keep_parts=keep_parts)

    def _rendered(self, normal: Sequence[Message], chat: ChatPrompt) -> str:
        """``normal``: the chat's messages, normalised and without gaps."""
        if chat.continue_final_message and chat.add_generation_prompt:
            raise Unrendered("template_error")
        messages = self._conversation(normal)
        try:
            if chat.continue_final_message:
                return self._render_open_ended(messages, chat)
            return self._render(messages, chat)
        except _TEMPLATE_FAULTS:
            raise Unrendered("template_error") from None

    def _conversation(self, normal: Sequence[Message]) -> list[Message]:
        messages = in_format(normal, self.content_format)
        if not self._knows_developer and any(message["role"] == "developer" for message in messages):
            return _developer_as_system(messages)
        return messages

    def _render(self, messages: Sequence[Message], chat: ChatPrompt) -> str:
        variables = self._constants.copy()
        for name, value in chat.template_kwargs.items():
            if name in self._variables:
                variables[name] = value
        variables["messages"] = messages
        variables["tools"] = chat.tools
        variables["add_generation_prompt"] = chat.add_generation_prompt
        # What Template.render does, without collecting the environment's globals anew each time.
        context = self._environment.context_class(self._environment, variables, None, self._template.blocks)
        return "".join(self._template.root_render_func(context))

    def _render_open_ended(self, messages: list[Message], chat: ChatPrompt) -> str:
        """The prompt up to the end of the final message's text, so that the model goes on inside it."""
        if "content" not in self.source:
            raise Unrendered("template_error")
        final_text, tagged = _with_tag(messages[-1])
        text = self._render([*messages[:-1], tagged], chat)
        end = text.rfind(_TAG.strip())
        if end < 0 or final_text.strip() not in text:
            raise Unrendered("template_error")
        return text[:end] if text.startswith(_TAG, end) else text[:end].rstrip()


def _with_tag(message: Message) -> tuple[str, Message]:
    """The last text of ``message``, and a copy of it with the tag behind that text."""
    content = message["content"]
    if isinstance(content, str):
        return content, {**message, "content": content + _TAG}
    for position in range(len(content) - 1, -1, -1):
        if "text" in content[position]:
            text: str = content[position]["text"]
            tagged = [
                *content[:position],
                {**content[position], "text": text + _TAG},
                *content[position + 1 :],
            ]
            return text, {**message, "content": tagged}
    raise Unrendered("template_error")


def _developer_as_system(messages: Sequence[Message]) -> list[Message]:
    """For templates without a developer role: it becomes system, and all system messages one, in front."""
    converted = [_renamed(message) if message["role"] == "developer" else message for message in messages]
    system = [message for message in converted if message["role"] == "system"]
    if len(system) == 1 and converted[0] is system[0]:
        return converted
    texts = [text for message in system if (text := _joined(message["content"]))]
    rest = [message for message in converted if message["role"] != "system"]
    return [{"role": "system", "content": "\n\n".join(texts)}, *rest]


def _renamed(message: Message) -> Message:
    return {name: value for name, value in message.items() if name != "tools"} | {"role": "system"}


def _joined(content: str | list[dict[str, Any]]) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(part["text"] for part in content if "text" in part)


def _environment(now: Callable[[], datetime]) -> _Environment:
    environment = _Environment(trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, loopcontrols])
    environment.filters["tojson"] = _tojson
    environment.globals["raise_exception"] = _raise_exception
    environment.globals["strftime_now"] = lambda pattern: now().strftime(pattern)
    return environment


def _tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | str | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """transformers' filter: unlike jinja's own it escapes no HTML."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _raise_exception(message: str) -> NoReturn:
    raise TemplateError(message)
