"""The tokenizer and template that ship with the simulated replica."""

from __future__ import annotations

from typing import Any

import pytest

from loadtest.replica.model_folder import ModelFolder, TextStream

MESSAGES: list[dict[str, Any]] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": [{"type": "text", "text": "Grüße, 世界 👋"}]},
    {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "f", "arguments": {"é": 1}}}]},
    {"role": "tool", "content": "42"},
]
TOOLS = [{"type": "function", "function": {"name": "f", "description": "<b>"}}]


@pytest.fixture(scope="module")
def folder() -> ModelFolder:
    return ModelFolder()


def test_text_round_trips(folder: ModelFolder) -> None:
    """Any text comes back, special tokens and all."""
    text = "<|im_start|>user\nGrüße, 世界 👋\n\n  tabs\t<|im_end|>"

    assert folder.decode(folder.encode(text)) == text


def test_renders_chatml(folder: ModelFolder) -> None:
    """A turn is a role and its content between the markers; parts of content are joined."""
    rendered = folder.render_chat(MESSAGES[:2])

    assert rendered == (
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nGrüße, 世界 👋<|im_end|>\n<|im_start|>assistant\n"
    )


def test_renders_tools_in_the_system_turn(folder: ModelFolder) -> None:
    """Tools join the system prompt as JSON, unescaped; calls and results are turns."""
    rendered = folder.render_chat(MESSAGES, tools=TOOLS, add_generation_prompt=False)

    assert rendered.startswith("<|im_start|>system\nBe brief.\n\nYou may call these tools:\n")
    assert '"description": "<b>"' in rendered
    assert rendered.count("<|im_start|>system") == 1
    assert '<tool_call>\n{"name": "f", "arguments": {"é": 1}}\n</tool_call>' in rendered
    assert rendered.endswith("<|im_start|>tool\n42<|im_end|>\n")


def test_can_continue_the_final_message(folder: ModelFolder) -> None:
    """The prompt ends where the last message's text ends."""
    messages = [*MESSAGES[:2], {"role": "assistant", "content": "It is"}]

    rendered = folder.render_chat(messages, add_generation_prompt=False, continue_final_message=True)

    assert rendered.endswith("<|im_start|>assistant\nIt is")


def test_a_conversation_it_cannot_render_is_a_value_error(folder: ModelFolder) -> None:
    """Whatever the template trips over."""
    with pytest.raises(ValueError, match="not iterable"):
        folder.render_chat([{"role": "user", "content": 3}])


def test_words_keep_their_tokens_in_any_order(folder: ModelFolder) -> None:
    """A row of word tokens decodes to text that encodes to the same tokens."""
    ids = [*folder.word_ids, *reversed(folder.word_ids)]

    assert len(folder.word_ids) > 300
    assert folder.encode(folder.decode(ids)) == ids
    assert all(word.isalpha() for word in folder.words)


def test_a_text_stream_never_cuts_a_character(folder: ModelFolder) -> None:
    """Pieces are whole characters and join to the text, though tokens are parts of characters."""
    text = "naïve 世界 👋"
    ids = folder.encode(text)
    stream = TextStream(folder)

    pieces = [stream.push(token, last=position == len(ids) - 1) for position, token in enumerate(ids)]

    assert "".join(pieces) == text
    assert "" in pieces
