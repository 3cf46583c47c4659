"""Requests to token ids: inline or in a thread, and a reason where there are none."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import tokenizers

from gateway.prompt.blocks import pack_tokens
from gateway.prompt.chat_template import ChatTemplate
from gateway.prompt.encoded_prompt import EncodedPrompt
from gateway.prompt.encoder import AbsentEncoder, LocalEncoder
from gateway.prompt.inference_request import InferenceRequest
from gateway.prompt.tokenizer import load_tokenizer
from gateway.prompt.tokenizer_files import TokenizerFiles
from tests.gateway.prompt.model_folders import CHATML


class CountingExecutor(Executor):
    """Threads that count what they are given."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(1)
        self.calls = 0

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.calls += 1
        return self._threads.submit(fn, *args, **kwargs)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self._threads.shutdown(wait)


@pytest.fixture
def executor() -> Iterator[CountingExecutor]:
    with CountingExecutor() as executor:
        yield executor


@pytest.fixture
def encoder(small_folder: Path, executor: CountingExecutor) -> LocalEncoder:
    return make_encoder(small_folder, executor, default=CHATML)


def make_encoder(folder: Path, executor: Executor, **templates: str) -> LocalEncoder:
    return LocalEncoder(
        load_tokenizer(TokenizerFiles.read(folder)),
        {name: ChatTemplate(source, {}) for name, source in templates.items()},
        chat_encoder=AbsentEncoder("no_template"),
        executor=executor,
        max_prompt_chars=50_000,
    )


def chat(content: object, **fields: Any) -> InferenceRequest:
    body = {"messages": [{"role": "user", "content": content}], **fields}
    return InferenceRequest.parse("chat", json.dumps(body).encode())


def completion(prompt: object) -> InferenceRequest:
    return InferenceRequest.parse("completions", json.dumps({"prompt": prompt}).encode())


def expected(folder: Path, text: str) -> EncodedPrompt:
    ids = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json")).encode(text).ids
    return EncodedPrompt(pack_tokens(ids), len(ids))


async def test_encodes_chats_and_completions(encoder: LocalEncoder, small_folder: Path) -> None:
    """The rendered chat, or the prompt as it is."""
    text = "<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n"

    assert await encoder.encode(chat("Hello")) == expected(small_folder, text)
    assert await encoder.encode(completion("Hello world")) == expected(small_folder, "Hello world")


async def test_token_ids_are_used_as_they_are(encoder: LocalEncoder) -> None:
    """No text is made of them."""
    assert await encoder.encode(completion([5, 2**32 - 1])) == EncodedPrompt(pack_tokens([5, 2**32 - 1]), 2)


async def test_of_several_prompts_the_longest_counts(encoder: LocalEncoder, small_folder: Path) -> None:
    """Never joined."""
    assert await encoder.encode(completion(["a", "Hello world", "b"])) == expected(small_folder, "Hello world")
    assert (await encoder.encode(completion([[1], [2, 3]]))).tokens == pack_tokens([2, 3])


async def test_large_prompts_leave_the_loop(
    encoder: LocalEncoder, executor: CountingExecutor, small_folder: Path
) -> None:
    """Small ones do not: the hop would cost more than the work."""
    large = "Hello world " * 3_000

    await encoder.encode(completion("Hello world"))
    assert executor.calls == 0
    assert await encoder.encode(completion(large)) == expected(small_folder, large)
    assert executor.calls == 1


async def test_tool_templates_serve_requests_with_tools(small_folder: Path, executor: Executor) -> None:
    """Where a model has one."""
    encoder = make_encoder(small_folder, executor, default="plain", tool_use="tools")

    assert await encoder.encode(chat("x")) == expected(small_folder, "plain")
    assert await encoder.encode(chat("x", tools=[{"function": {"name": "f"}}])) == expected(small_folder, "tools")


@pytest.mark.parametrize(
    ("request_", "reason"),
    [
        (chat([{"type": "image_url", "image_url": {"url": ""}}]), "image"),
        (chat("x", chat_template="t"), "client_template"),
        (chat("\ud800"), "not_unicode"),
        (chat("x", tools=[{"function": {"name": "\ud800"}}], chat_template_kwargs={}), ""),
        (completion("\udfff"), "not_unicode"),
        (completion(None), "prompt"),
        (completion("x" * 50_001), "too_long"),
        (completion([1] * 50_001), "too_long"),
        (chat("x", continue_final_message=True), "template_error"),
        (InferenceRequest.parse("tokenize", b"{}"), "route"),
    ],
)
async def test_odd_prompts_give_a_reason(request_: InferenceRequest, reason: str, encoder: LocalEncoder) -> None:
    """Never an exception, never tokens that the engine would not compute."""
    encoded = await encoder.encode(request_)

    assert encoded.reason == reason
    assert bool(encoded.count) == (not reason)


async def test_of_a_chat_with_a_picture_the_text_before_it_is_known(encoder: LocalEncoder, small_folder: Path) -> None:
    """So many of its tokens as do not depend on what follows, and why there are no more."""
    image = {"type": "image_url", "image_url": {"url": "data:"}}
    history = "word " * 100
    body = {"messages": [{"role": "system", "content": history}, {"role": "user", "content": [image]}]}
    encoded = await encoder.encode(InferenceRequest.parse("chat", json.dumps(body).encode()))
    plain = expected(small_folder, f"<|im_start|>system\n{history}<|im_end|>\n<|im_start|>user\n")

    assert (encoded.reason, encoded.complete) == ("image", False)
    assert plain.count - 33 <= encoded.count < plain.count
    assert plain.tokens.startswith(encoded.tokens)


async def test_what_depends_on_the_template_is_made_for_it(small_folder: Path, executor: Executor) -> None:
    """Anthropic's messages with instructions in between: left there, or moved to the front of all."""
    messages = [{"role": role, "content": f"{role} "} for role in ("user", "system", "user")]
    request = InferenceRequest.parse("messages", json.dumps({"messages": messages, "system": "first "}).encode())
    prints = "{% for m in messages %}{{ m.content }}{% endfor %}"
    refuses = "{% for m in messages[1:] %}{% if m.role == 'system' %}{{ raise_exception('no') }}{% endif %}{% endfor %}"
    free, strict = (make_encoder(small_folder, executor, default=source) for source in (prints, refuses + prints))

    assert await free.encode(request) == expected(small_folder, "first user system user ")
    assert await strict.encode(request) == expected(small_folder, "first system user user ")


async def test_the_tool_template_serves_an_empty_list_of_tools(small_folder: Path, executor: Executor) -> None:
    """A response's, of tools that no model is shown; without a list the other one does."""
    encoder = make_encoder(small_folder, executor, default="plain", tool_use="tools")
    bodies = ({"input": "x", "tools": [{"type": "web_search"}]}, {"input": "x", "tools": []})
    requests = [InferenceRequest.parse("responses", json.dumps(body).encode()) for body in bodies]

    assert [await encoder.encode(request) for request in requests] == [
        expected(small_folder, "tools"),
        expected(small_folder, "plain"),
    ]


async def test_a_template_that_fails_is_a_reason(small_folder: Path, executor: Executor) -> None:
    """Whatever it fails of, with a picture in the chat and without."""
    image = {"type": "image_url", "image_url": {"url": "data:"}}
    for source in ("{{ raise_exception('no') }}", "{{ 1 / 0 }}", "{{ messages[9].content }}", "{{ none.x.y }}"):
        encoder = make_encoder(small_folder, executor, default=source)

        assert await encoder.encode(chat("x")) == EncodedPrompt.unknown("template_error")
        assert await encoder.encode(chat([image])) == EncodedPrompt.unknown("template_error")


class FailingTokenizer:
    """Gives up on every text."""

    inline_chars = 1_000

    def encode(self, text: str, *, add_special_tokens: bool) -> bytes:
        raise Exception("of no kind of its own")


async def test_a_tokenizer_that_fails_is_a_reason(executor: Executor, caplog: pytest.LogCaptureFixture) -> None:
    """Said once; what needs no tokenizer is known all the same."""
    encoder = LocalEncoder(
        FailingTokenizer(),
        {"default": ChatTemplate(CHATML, {})},
        chat_encoder=AbsentEncoder("no_template"),
        executor=executor,
        max_prompt_chars=50_000,
    )
    image = {"type": "image_url", "image_url": {"url": ""}}
    long = [{"role": "system", "content": "x" * 100}, {"role": "user", "content": [image]}]
    for request in (chat("x"), chat("x" * 2_000), chat("", messages=long), completion("secret")):
        assert await encoder.encode(request) == EncodedPrompt.unknown("tokenizer_error")

    assert (await encoder.encode(completion([5]))).count == 1
    assert len(caplog.records) == 1
    assert "secret" not in caplog.text


async def test_without_a_template_chats_go_elsewhere(small_folder: Path, executor: Executor) -> None:
    """To a replica, or to nobody; completions stay."""
    encoder = make_encoder(small_folder, executor)

    assert await encoder.encode(chat("x")) == EncodedPrompt.unknown("no_template")
    assert await encoder.encode(completion("Hello")) == expected(small_folder, "Hello")


async def test_without_a_default_template_there_is_no_chat(small_folder: Path, executor: Executor) -> None:
    """A model that has a template for tools only."""
    encoder = make_encoder(small_folder, executor, tool_use="tools")

    assert await encoder.encode(chat("x")) == EncodedPrompt.unknown("no_template")


async def test_without_a_tokenizer_only_ids_are_known() -> None:
    """They need none."""
    absent = AbsentEncoder("no_tokenizer")

    assert await absent.encode(completion([1, 2])) == EncodedPrompt(pack_tokens([1, 2]), 2)
    assert await absent.encode(completion("x")) == EncodedPrompt.unknown("no_tokenizer")
    assert await absent.encode(chat("x")) == EncodedPrompt.unknown("no_tokenizer")
    assert await absent.encode(completion(None)) == EncodedPrompt.unknown("prompt")


async def test_rendering_happens_where_encoding_does(small_folder: Path, executor: Executor) -> None:
    """A large chat's template runs off the loop too."""
    threads: list[str] = []
    template = ChatTemplate("{{ strftime_now('x') }}", {}, now=lambda: _note_thread(threads))
    encoder = LocalEncoder(
        load_tokenizer(TokenizerFiles.read(small_folder)),
        {"default": template},
        chat_encoder=AbsentEncoder("no_template"),
        executor=executor,
        max_prompt_chars=1,
    )

    await encoder.encode(chat("x"))
    await encoder.encode(chat("x" * 20_000))

    assert [name == threading.main_thread().name for name in threads] == [True, False]


def _note_thread(threads: list[str]) -> Any:
    from datetime import UTC, datetime

    threads.append(threading.current_thread().name)
    return datetime.now(UTC)


async def test_only_what_is_small_is_encoded_without_waiting(encoder: LocalEncoder, executor: CountingExecutor) -> None:
    """And gives the same; the rest is for a thread."""
    small, large = completion("Hello world"), completion("Hello world " * 4_000)

    assert encoder.encode_now(small) == await encoder.encode(small)
    assert encoder.encode_now(large) is None
    assert executor.calls == 0


def test_chats_without_a_template_go_to_the_other_encoder_at_once_too(
    small_folder: Path, executor: CountingExecutor
) -> None:
    """Which knows why there are no tokens."""
    assert make_encoder(small_folder, executor).encode_now(chat("Hello")) == EncodedPrompt.unknown("no_template")
