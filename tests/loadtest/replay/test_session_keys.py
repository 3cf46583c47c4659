"""Session keys where a trace names none."""

from __future__ import annotations

from loadtest.replay.session_keys import inferred


def test_prompts_that_share_more_than_the_system_prompt_go_together() -> None:
    """Block 0 is everybody's; 1 and 2 belong to conversations."""
    chats = [(0, 1), (0, 1, 11), (0, 2), (0, 1, 11, 12)]
    keys = inferred([*chats, *((0, 100 + n) for n in range(50))])
    assert keys[0] == keys[1] == keys[3] != keys[2]
    assert len(set(keys)) == 52


def test_prompts_with_nothing_of_their_own_are_sessions_of_their_own() -> None:
    """They end within what everybody shares, or have no full block."""
    keys = inferred([(0,)] * 20 + [()] * 5)
    assert len(set(keys)) == 25


def test_in_a_large_trace_a_conversation_may_be_long() -> None:
    """Up to a hundredth of all requests."""
    chats = [(0, 1)] * 15
    assert len(set(inferred([*chats, *((0, 100 + n) for n in range(2000))])[:15])) == 1
    assert len(set(inferred([*chats, *((0, 100 + n) for n in range(100))])[:15])) == 15
