"""FindingBook: what is in force, since when, and what explains what."""

from __future__ import annotations

from gateway.check.finding import found
from gateway.check.finding_book import FindingBook
from gateway.check.verdict import fine, skipped, wrong


class _Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def _names(book: FindingBook) -> list[tuple[str, str]]:
    return [(finding.name, finding.replica_id) for finding, _ in book.standing()]


def test_what_is_seen_counts_for_as_long_as_it_is_seen() -> None:
    clock = _Clock()
    book = FindingBook(clock)
    book.seen([found("events_late", "a", "3 s")])
    clock.now = 5.0
    book.seen([found("events_late", "a", "4 s"), found("unreachable", "b", "")])

    assert [(s.finding.detail, s.since_s) for s in book.standing()] == [("4 s", 0.0), ("", 5.0)]
    book.seen([])
    assert book.standing() == []
    book.seen([found("events_late", "a", "")])
    assert book.standing()[0].since_s == 5.0


def test_what_was_checked_counts_until_the_check_says_otherwise() -> None:
    book = FindingBook(_Clock())
    book.checked("a", [wrong("salt", "a", "salt_dropped", ""), wrong("events", "a", "events_of_another", "", of="b")])
    assert _names(book) == [("salt_dropped", "a"), ("events_of_another", "b")]

    book.checked("a", [skipped("salt", "a", "busy"), fine("events", "a")])
    assert _names(book) == [("salt_dropped", "a")]

    book.checked("a", [fine("salt", "a")])
    assert _names(book) == []


def test_one_check_may_be_made_again_by_itself() -> None:
    book = FindingBook(_Clock())
    book.checked("a", [wrong("salt", "a", "salt_dropped", ""), fine("replay", "a")])
    book.checked_once("a", wrong("replay", "a", "replay_stale", ""))
    assert _names(book) == [("salt_dropped", "a"), ("replay_stale", "a")]
    book.checked_once("a", fine("replay", "a"))
    assert _names(book) == [("salt_dropped", "a")]


def test_a_cause_explains_the_symptoms_of_its_replica_alone() -> None:
    book = FindingBook(_Clock())
    book.seen([found("unconfirmed", "a", ""), found("unconfirmed", "b", ""), found("coverage_low", "", "")])
    book.checked("a", [wrong("template", "a", "template_differs", "")])

    assert _names(book) == [("unconfirmed", "b"), ("coverage_low", ""), ("template_differs", "a")]


def test_a_guess_gives_way_to_the_true_name() -> None:
    book = FindingBook(_Clock())
    book.seen([found("template_differs", "a", ""), found("removals_lost", "b", "")])
    book.checked("a", [wrong("tokenizer", "a", "tokenizer_differs", "")])
    book.checked("b", [wrong("holding", "b", "restart_unnoticed", "")])

    assert _names(book) == [("tokenizer_differs", "a"), ("restart_unnoticed", "b")]


def test_replicas_that_left_take_theirs_with_them() -> None:
    book = FindingBook(_Clock())
    book.checked("a", [wrong("salt", "a", "salt_dropped", "")])
    book.forget_all_but({"b"})

    assert _names(book) == []
