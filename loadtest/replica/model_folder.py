"""ModelFolder: the tokenizer and chat template a simulated replica serves its model with.

Uses `tokenizers` and jinja2 directly, on purpose: it is what the gateway's own prompt rendering is compared
with. Does not know requests or limits.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from jinja2.exceptions import TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment
from tokenizers import Tokenizer

from loadtest.replica.api_error import ApiError

#: The model that ships with the package.
DEFAULT_FOLDER = Path(__file__).parents[1] / "model"
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


class ModelFolder:
    """A folder with ``tokenizer.json`` and ``tokenizer_config.json``."""

    def __init__(self, path: Path = DEFAULT_FOLDER) -> None:
        self.path = path
        self._tokenizer = Tokenizer.from_file(str(path / "tokenizer.json"))
        config = json.loads((path / "tokenizer_config.json").read_text())
        self._template = _environment().from_string(config["chat_template"])
        self.eos_token_id: int = self._tokenizer.token_to_id(config["eos_token"]) or 0

    @property
    def vocab_size(self) -> int:
        size: int = self._tokenizer.get_vocab_size()
        return size

    @cached_property
    def word_ids(self) -> Sequence[int]:
        """Tokens that are a space and a word, and that encode to themselves: any row of them round-trips."""
        return [token for token in range(self.vocab_size) if self._is_word(token)]

    @property
    def words(self) -> list[str]:
        """The words of :attr:`word_ids`, bare."""
        return [self.decode([token]).strip() for token in self.word_ids]

    def encode(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
        """Token ids. A lone surrogate is refused, as pydantic does in vLLM."""
        ApiError.require_text(text)
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=add_special_tokens).ids
        return ids

    def letters(self, token: int) -> list[int]:
        """Tokens of the same text, one for each of its characters; those of a special token are itself."""
        text = self.decode([token])
        letters = [part for letter in text for part in self.encode(letter, add_special_tokens=False)]
        return letters if text and self.decode(letters) == text else [token]

    def decode(self, ids: Sequence[int], *, skip_special_tokens: bool = False) -> str:
        text: str = self._tokenizer.decode(list(ids), skip_special_tokens=skip_special_tokens)
        return text

    def token_strings(self, ids: Iterable[int]) -> list[str | None]:
        return [self._tokenizer.id_to_token(token) for token in ids]

    def render_chat(
        self,
        messages: Sequence[Mapping[str, object]],
        *,
        tools: Sequence[object] | None = None,
        add_generation_prompt: bool = True,
        continue_final_message: bool = False,
        **kwargs: object,
    ) -> str:
        """The prompt of a conversation, as ``apply_chat_template`` renders it. Raises ``ValueError``."""
        try:
            text = self._template.render(
                messages=[_parsed(message) for message in messages],
                tools=tools,
                add_generation_prompt=add_generation_prompt,
                **kwargs,
            )
        except (TemplateError, TypeError) as error:
            raise ValueError(str(error)) from error
        if not continue_final_message:
            return text
        final = str(messages[-1].get("content") or "").strip()
        return text[: text.rindex(final) + len(final)]

    def _is_word(self, token: int) -> bool:
        text = self.decode([token])
        word = text[1:]
        is_word = text.startswith(" ") and len(word) > 1 and word.isalpha() and word.isascii()
        return is_word and self.encode(text) == [token]


class TextStream:
    """Turns generated tokens into text, character by character: half of one waits for the other half."""

    def __init__(self, folder: ModelFolder) -> None:
        self._folder = folder
        self._pending: list[int] = []

    def push(self, token: int, *, last: bool) -> str:
        """The text that ``token`` completes; at the ``last`` one also what never became a character."""
        self._pending.append(token)
        text = self._folder.decode(self._pending, skip_special_tokens=True)
        if text.endswith(_REPLACEMENT) and not last:
            return ""
        self._pending.clear()
        return text


def _environment() -> ImmutableSandboxedEnvironment:
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = _raise_exception
    return environment


def _to_json(value: object, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)


def _raise_exception(message: str) -> None:
    raise TemplateError(message)


def _parsed(message: Mapping[str, object]) -> Mapping[str, object]:
    """Arguments of tool calls come as JSON text; templates are given the object, and first, as by vLLM."""
    calls = message.get("tool_calls")
    if not isinstance(calls, list):
        return message
    return {**message, "tool_calls": [_parsed_call(call) for call in calls]}


def _parsed_call(call: Mapping[str, Any]) -> Mapping[str, Any]:
    function = call.get("function", {})
    if not isinstance(function.get("arguments"), str):
        return call
    rest = {name: value for name, value in function.items() if name != "arguments"}
    return {**call, "function": {"arguments": json.loads(function["arguments"] or "{}"), **rest}}
