"""Mixed work: conversations of several kinds, tenants and adapters, interleaved, repeatable by their seed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, NamedTuple

WORDS = "route block cache token prefix replica gateway engine memory first last answer question model".split()
KINDS = ("chat", "tools", "completion")
#: Who asks: a model or adapter, a cache salt or none.
TENANTS = (("tiny", None), ("tiny", "tenant-a"), ("pirate", None), ("tiny", "tenant-b"), ("tiny", None))
TOOLS: list[dict[str, Any]] = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": f"Find the {name} of a place",
            "parameters": {"type": "object", "properties": {"place": {"type": "string"}}, "required": ["place"]},
        },
    }
    for name in ("weather", "distance")
]


class Turn(NamedTuple):
    """One request of a conversation. ``kind``: chat, tools or completion."""

    conversation: Conversation
    kind: str
    path: str
    body: dict[str, Any]

    @property
    def stream(self) -> bool:
        return bool(self.body.get("stream"))

    @property
    def asks_usage(self) -> bool:
        return not self.stream or "stream_options" in self.body

    @property
    def label(self) -> str:
        """``tools pirate``: its kind, its model where that is an adapter, its salt."""
        model = self.body["model"]
        words = (self.kind, "" if model == "tiny" else model, self.body.get("cache_salt", ""))
        return " ".join(filter(None, words))


@dataclass(slots=True)
class Conversation:
    """What was said so far. ``model``, ``salt``: whose it is."""

    kind: str
    model: str
    salt: str | None
    rng: Random
    messages: list[dict[str, Any]] = field(default_factory=list)
    text: str = ""
    asked: int = 0

    def begin(self, assistant: str) -> None:
        """``assistant``: the system prompt, which others may share."""
        if self.kind == "completion":
            self.text = assistant
        elif self.kind == "tools":  # the model's template puts its tools where a system prompt would be
            self.messages = [{"role": "user", "content": assistant}, {"role": "assistant", "content": "Yes."}]
        else:
            self.messages = [{"role": "system", "content": assistant}]

    def next_turn(self) -> Turn:
        """Ask something more; the last answer must have been told with :meth:`answered`."""
        self.asked += 1
        body: dict[str, Any] = {"model": self.model, "max_tokens": self.rng.randrange(4, 40), "temperature": 0}
        if self.salt is not None:
            body["cache_salt"] = self.salt
        if self.rng.random() < 0.5:
            body["stream"] = True
            if self.rng.random() < 0.95:
                body["stream_options"] = {"include_usage": True}
        if self.kind == "completion":
            self.text += " " + some_text(self.rng, 25)
            return Turn(self, self.kind, "/v1/completions", body | {"prompt": self.text})
        self.messages.append(self._question())
        body["messages"] = list(self.messages)
        if self.kind == "tools":
            body["tools"] = TOOLS
            body["tool_choice"] = self.rng.choice(["auto", "none"])
        return Turn(self, self.kind, "/v1/chat/completions", body)

    def answered(self, text: str) -> None:
        """Go on from what the model said. Where there are tools it is taken to have called one every other time."""
        if self.kind == "completion":
            self.text += text
        elif self.kind == "tools" and self.asked % 2:
            arguments = json.dumps({"place": self.rng.choice(WORDS)})
            call = {
                "id": f"call_{self.asked}",
                "type": "function",
                "function": {"name": "weather", "arguments": arguments},
            }
            self.messages.append({"role": "assistant", "content": text or None, "tool_calls": [call]})
            self.messages.append({"role": "tool", "tool_call_id": call["id"], "content": some_text(self.rng, 12)})
        else:
            self.messages.append({"role": "assistant", "content": text})

    def _question(self) -> dict[str, Any]:
        text = some_text(self.rng, 20)
        if self.rng.random() < 0.3:
            return {
                "role": "user",
                "content": [{"type": "text", "text": text}, {"type": "text", "text": "and ünï 世界"}],
            }
        return {"role": "user", "content": text}


def some_text(rng: Random, words: int) -> str:
    """Words that no other text begins with."""
    return " ".join(rng.choice(WORDS) + str(rng.randrange(100)) for _ in range(words))


def conversations(
    count: int,
    seed: int,
    tenants: Sequence[tuple[str, str | None]] = TENANTS,
    first: int = 0,
    assistant_words: int = 45,
) -> list[Conversation]:
    """Kinds and tenants in turn; four system prompts are shared by all of a seed. ``first``: its number."""
    assistants = [some_text(Random(f"assistant {seed} {number}"), assistant_words) for number in range(4)]
    begun = []
    for number in range(first, first + count):
        model, salt = tenants[number % len(tenants)]
        kind = KINDS[number % len(KINDS)]
        conversation = Conversation(kind, model, salt, Random(f"{seed} {number}"))
        conversation.begin(assistants[number % 4])
        begun.append(conversation)
    return begun


def interleaved(begun: Sequence[Conversation], turns: int, seed: int, open_at_once: int) -> Iterator[Turn]:
    """Every conversation's turns, ``open_at_once`` of them at a time, in random order."""
    rng = Random(f"order {seed}")
    waiting, left = list(begun), {id(conversation): turns for conversation in begun}
    running: list[Conversation] = []
    while waiting or running:
        while waiting and len(running) < open_at_once:
            running.append(waiting.pop(0))
        chosen = rng.choice(running)
        left[id(chosen)] -= 1
        if not left[id(chosen)]:
            running.remove(chosen)
        yield chosen.next_turn()


def answer_text(answer: Mapping[str, Any]) -> str:
    """What the first choice of an answer, or of one event of a stream, says."""
    for choice in answer.get("choices", ())[:1]:
        said = choice.get("message") or choice.get("delta") or choice
        return str(said.get("content") or said.get("text") or "")
    return ""
