"""One request through the gateway, and what it showed: what was predicted of the cache, and what vLLM counted."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import httpx

from tests.vllm.mixed_work import Turn, answer_text


class Asked(NamedTuple):
    """``predicted``: tokens cached, as the gateway's receipt says; ``actual``: as vLLM's usage does; ``None``: it does
    not. ``counted``, ``prompt``: tokens of the prompt, likewise.
    """

    label: str
    replica: str
    reason: str
    predicted: int | None
    counted: int | None
    actual: int | None
    prompt: int | None
    tiers: dict[str, int]
    settled: bool

    @property
    def left_out(self) -> str:
        """Why it cannot be compared; "": it can."""
        if self.predicted is None:
            return "no prediction"
        if self.actual is None:
            return "no usage"
        return "" if self.settled else "unsettled"


async def ask(client: httpx.AsyncClient, turn: Turn, *, settled: bool) -> Asked:
    """Send it, and tell its conversation the answer. ``settled``: all events of what was asked before are in."""
    text, usage = "", None
    async with client.stream("POST", turn.path, json=turn.body) as answer:
        if answer.is_error:
            raise AssertionError(f"{answer.status_code} {(await answer.aread()).decode()} for {turn.body}")
        if turn.stream:
            async for line in answer.aiter_lines():
                if line.startswith("data: {"):
                    event = json.loads(line.removeprefix("data: "))
                    assert "error" not in event, event
                    text, usage = text + answer_text(event), event.get("usage") or usage
        else:
            whole = json.loads(await answer.aread())
            text, usage = answer_text(whole), whole["usage"]
    turn.conversation.answered(text)
    return _read(turn, answer.headers, usage, settled)


def matched(headers: httpx.Headers) -> dict[str, int]:
    """The receipt's ``x-prefixway-matched``."""
    pairs = filter(None, headers.get("x-prefixway-matched", "").split(","))
    return {name: int(tokens) for name, tokens in (pair.split("=") for pair in pairs)}


def _read(turn: Turn, headers: httpx.Headers, usage: dict[str, Any] | None, settled: bool) -> Asked:
    tiers = matched(headers)
    counted = tiers.pop("prompt", None)
    return Asked(
        turn.label,
        headers["x-prefixway-replica"],
        headers["x-prefixway-reason"],
        sum(tiers.values()) if tiers else None,
        counted,
        usage["prompt_tokens_details"]["cached_tokens"] if usage else None,
        usage["prompt_tokens"] if usage else None,
        tiers,
        settled,
    )
