"""AnswerShape: the JSON of chat and completion answers, whole and in chunks, as vLLM 0.32 writes it.

Does not know where text and counts come from.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

FINGERPRINT = "vllm-0.32.0-simulated"


class Usage(NamedTuple):
    """Tokens of one answer. ``cached_tokens`` is ``None`` where the replica does not report them."""

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int | None

    def json(self) -> dict[str, Any]:
        usage: dict[str, Any] = {
            "prompt_tokens": self.prompt_tokens,
            "total_tokens": self.prompt_tokens + self.completion_tokens,
            "completion_tokens": self.completion_tokens,
        }
        if self.cached_tokens is not None:
            usage["prompt_tokens_details"] = {"cached_tokens": self.cached_tokens}
        return usage


class Choice(NamedTuple):
    """A finished choice of a plain answer."""

    text: str
    finish_reason: str


class AnswerShape(Protocol):
    """One answer's id, time and model, and how to write its parts."""

    def opening(self, index: int) -> Mapping[str, Any] | None:
        """The chunk before the first token's; ``None`` if there is none."""
        ...

    def chunk(self, index: int, text: str, finish_reason: str | None) -> Mapping[str, Any]:
        """One token's chunk."""
        ...

    def usage_chunk(self, usage: Usage) -> Mapping[str, Any]:
        """The last chunk before ``[DONE]``, with no choices."""
        ...

    def whole(self, choices: Sequence[Choice], usage: Usage) -> Mapping[str, Any]:
        """A plain answer."""
        ...


@dataclass(frozen=True, slots=True)
class ChatShape:
    """``chat.completion`` and ``chat.completion.chunk``."""

    request_id: str
    created: int
    model: str

    def opening(self, index: int) -> Mapping[str, Any] | None:
        return self._chunk(index, {"role": "assistant", "content": ""}, None)

    def chunk(self, index: int, text: str, finish_reason: str | None) -> Mapping[str, Any]:
        return self._chunk(index, {"content": text}, finish_reason)

    def usage_chunk(self, usage: Usage) -> Mapping[str, Any]:
        return self._envelope([]) | {"usage": usage.json(), "system_fingerprint": FINGERPRINT}

    def whole(self, choices: Sequence[Choice], usage: Usage) -> Mapping[str, Any]:
        rows = [
            {
                "index": index,
                "message": {"role": "assistant", "content": choice.text, "tool_calls": []},
                "logprobs": None,
                "finish_reason": choice.finish_reason,
                "stop_reason": None,
            }
            for index, choice in enumerate(choices)
        ]
        answer = self._envelope(rows, "chat.completion")
        return answer | {"service_tier": None, "system_fingerprint": FINGERPRINT, "usage": usage.json()}

    def _chunk(self, index: int, delta: Mapping[str, str], finish_reason: str | None) -> Mapping[str, Any]:
        row = {"index": index, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
        return self._envelope([row])

    def _envelope(self, rows: Sequence[Any], kind: str = "chat.completion.chunk") -> dict[str, Any]:
        identity = {"id": f"chatcmpl-{self.request_id}", "object": kind}
        return identity | {"created": self.created, "model": self.model, "choices": rows}


@dataclass(frozen=True, slots=True)
class CompletionShape:
    """``text_completion``, whole and in chunks."""

    request_id: str
    created: int
    model: str

    def opening(self, index: int) -> Mapping[str, Any] | None:
        return None

    def chunk(self, index: int, text: str, finish_reason: str | None) -> Mapping[str, Any]:
        return self._envelope([self._row(index, text, finish_reason)])

    def usage_chunk(self, usage: Usage) -> Mapping[str, Any]:
        return self._envelope([]) | {"usage": usage.json(), "system_fingerprint": FINGERPRINT}

    def whole(self, choices: Sequence[Choice], usage: Usage) -> Mapping[str, Any]:
        rows = [self._row(index, choice.text, choice.finish_reason) for index, choice in enumerate(choices)]
        answer = self._envelope(rows)
        return answer | {"service_tier": None, "system_fingerprint": FINGERPRINT, "usage": usage.json()}

    def _row(self, index: int, text: str, finish_reason: str | None) -> dict[str, Any]:
        row = {"index": index, "text": text, "logprobs": None}
        return row | {"finish_reason": finish_reason, "stop_reason": None}

    def _envelope(self, rows: Sequence[Any]) -> dict[str, Any]:
        identity = {"id": f"cmpl-{self.request_id}", "object": "text_completion"}
        return identity | {"created": self.created, "model": self.model, "choices": rows}
