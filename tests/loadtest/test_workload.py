"""The conversations."""

from __future__ import annotations

from loadtest.workload import Workload

WORDS = ["a", "bb", "ccc", "dddd"]
SMALL = Workload(dialogues=6, turns=3, assistants=2, system_words=10, turn_words=(2, 4))


def test_a_seed_is_a_load() -> None:
    """The same seed gives the same conversations, another one others."""
    assert SMALL.generate(WORDS, 1) == SMALL.generate(WORDS, 1)
    assert SMALL.generate(WORDS, 1) != SMALL.generate(WORDS, 2)


def test_people_share_the_system_prompt_of_their_assistant() -> None:
    """As many prompts as assistants, of the asked length; turns within their bounds."""
    dialogues = SMALL.generate(WORDS, 1)
    prompts = [dialogue.system_prompt for dialogue in dialogues]

    assert prompts[0] == prompts[2] == prompts[4]
    assert len(set(prompts)) == 2
    assert {len(prompt.split()) for prompt in prompts} == {10}
    turns = [turn for dialogue in dialogues for turn in dialogue.turns]
    assert len(turns) == 18
    assert {len(turn.text.split()) for turn in turns} <= {2, 3, 4}
    assert all(0.2 <= turn.think_s <= 1.2 and 16 <= turn.max_tokens <= 32 for turn in turns)
    assert len({dialogue.id for dialogue in dialogues}) == 6
