"""The corpus: small, and text that was never seen is never the same."""

from __future__ import annotations

from random import Random

from gateway.check.probe_corpus import CHATS, TEXTS, unseen_text


def test_the_corpus_is_small() -> None:
    assert len(TEXTS) + len(CHATS) < 20
    assert all(len(text) < 200 for text in TEXTS)


def test_unseen_text_has_as_many_words_as_asked_for_and_differs_each_time() -> None:
    random = Random(1)
    texts = [unseen_text(50, random) for _ in range(100)]

    assert all(len(text.split()) == 50 for text in texts)
    assert len({text[:40] for text in texts}) == 100
