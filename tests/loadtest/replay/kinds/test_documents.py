"""Generated questions about documents."""

from __future__ import annotations

from collections import defaultdict
from random import Random

from loadtest.replay.kinds.documents import make
from loadtest.replay.trace import Turn


def test_questions_about_a_document_share_it_and_other_prompts_share_nothing() -> None:
    """Short questions after long documents."""
    by_key: defaultdict[str, list[Turn]] = defaultdict(list)
    for session in make(1000, Random(2)):
        by_key[session.key].extend(session.turns)
    seen: set[int] = set()
    for key, turns in by_key.items():
        if key.startswith("document"):
            shared = len(set.intersection(*(set(turn.blocks) for turn in turns)))
            assert all(turn.prompt_tokens - 512 * shared < 1500 + 512 for turn in turns)
        else:
            assert len(turns) == 1
        blocks = {block for turn in turns for block in turn.blocks}
        assert not blocks & seen
        seen |= blocks


def test_most_requests_ask_about_few_documents() -> None:
    """A tenth as many documents as requests, each asked about two to 24 times."""
    keys = [session.key for session in make(2000, Random(2)) if session.key.startswith("document")]
    documents = {key: keys.count(key) for key in keys}
    assert 900 < len(keys) < 1300
    assert 150 < len(documents) < 250
    assert max(documents.values()) <= 24
