"""The vocabulary of findings: closed, whole, and the same in the documentation."""

from __future__ import annotations

import pytest

from gateway.check.finding import KINDS, Severity, found
from scripts.findings_table import PAGE


def test_a_finding_carries_the_severity_and_the_mend_of_its_kind() -> None:
    finding = found("details_off", "a", "usage does not tell")

    assert (finding.severity, finding.replica_id, finding.detail) == (Severity.WRONG, "a", "usage does not tell")
    assert "--enable-prompt-tokens-details" in finding.mend


def test_there_is_no_finding_of_another_name() -> None:
    with pytest.raises(KeyError):
        found("odd", "a", "")


@pytest.mark.parametrize("name", KINDS)
def test_every_kind_says_what_it_is_and_what_mends_it(name: str) -> None:
    kind = KINDS[name]

    assert name.replace("_", "").isalpha()
    assert kind.mend.endswith(".")
    assert not kind.meaning.endswith(".")


def test_the_documentation_has_them_all() -> None:
    """`python scripts/findings_table.py` writes it."""
    assert PAGE.fresh() == PAGE.text()
