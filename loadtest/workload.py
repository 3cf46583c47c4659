"""Workload: conversations to put on a gateway, the same for the same seed.

People who share an assistant share its long system prompt; each then talks for several turns, and every turn
sends the whole conversation again. Does not know HTTP or time: a client plays it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import NamedTuple


class Turn(NamedTuple):
    """One message of a person. ``think_s``: seconds before it is sent, after the last answer has ended."""

    text: str
    think_s: float
    max_tokens: int


@dataclass(frozen=True, slots=True)
class Dialogue:
    """One person's conversation with one assistant."""

    id: str
    system_prompt: str
    turns: tuple[Turn, ...]


@dataclass(frozen=True, slots=True)
class Workload:
    """How many conversations, and how long. Words are about tokens where ``words`` are the model's own."""

    dialogues: int = 36
    turns: int = 5
    assistants: int = 3
    system_words: int = 250
    turn_words: tuple[int, int] = (150, 280)
    answer_tokens: tuple[int, int] = (16, 32)
    think_s: tuple[float, float] = (0.2, 1.2)

    def generate(self, words: Sequence[str], seed: int) -> list[Dialogue]:
        """The conversations, made of ``words``."""
        rng = Random(seed)
        prompts = [_sentence(words, self.system_words, rng) for _ in range(self.assistants)]
        return [
            Dialogue(f"dialogue-{number}", prompts[number % len(prompts)], self._turns(words, rng))
            for number in range(self.dialogues)
        ]

    def _turns(self, words: Sequence[str], rng: Random) -> tuple[Turn, ...]:
        return tuple(
            Turn(
                _sentence(words, rng.randint(*self.turn_words), rng),
                rng.uniform(*self.think_s),
                rng.randint(*self.answer_tokens),
            )
            for _ in range(self.turns)
        )


def _sentence(words: Sequence[str], count: int, rng: Random) -> str:
    return " ".join(rng.choices(words, k=count))
