"""Token parity: another tokenizer and another template are told apart."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.check.tokenizer_check import check_tokenizer
from loadtest.replica import ReplicaOptions
from loadtest.replica.model_folder import DEFAULT_FOLDER
from tests.gateway.check.proving import FAST, Proving, proving, words


async def _check(proven: Proving) -> dict[str, str]:
    found = check_tokenizer(proven.replicas["a"], proven.knowledge, proven.caller)
    return words([verdict async for verdict in found])


async def test_the_same_tokenizer_and_template_are_fine() -> None:
    async with proving(ReplicaOptions(speeds=FAST, loras=("ada",))) as proven:
        assert await _check(proven) == {"tokenizer": "ok", "template": "ok"}


@pytest.mark.parametrize("fault", ["shifts_tokens", "splits_tokens"])
async def test_another_tokenizer_is_told_and_the_template_then_is_not(fault: str) -> None:
    async with proving() as proven:
        setattr(proven.sims["a"].silent, fault, True)

        assert await _check(proven) == {"tokenizer": "tokenizer_differs"}


async def test_another_template_is_told() -> None:
    async with proving() as proven:
        proven.sims["a"].silent.template_preamble = "You are somebody else. "

        assert await _check(proven) == {"tokenizer": "ok", "template": "template_differs"}


async def test_a_tokenizer_that_only_replicas_have_is_the_gateways_own_fault() -> None:
    async with proving(tokenizer="/nowhere") as proven:
        verdicts = [v async for v in check_tokenizer(proven.replicas["a"], proven.knowledge, proven.caller)]

        assert words(verdicts) == {"tokenizer": "tokenizer_remote"}
        assert verdicts[0].finding is not None
        assert verdicts[0].finding.replica_id == ""


async def test_a_template_that_only_replicas_have_likewise(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_bytes((DEFAULT_FOLDER / "tokenizer.json").read_bytes())
    async with proving(tokenizer=str(tmp_path)) as proven:
        assert await _check(proven) == {"tokenizer": "ok", "template": "tokenizer_remote"}


async def test_chats_that_the_engine_renders_in_python_are_nobodys_fault(tmp_path: Path) -> None:
    for file in DEFAULT_FOLDER.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    (tmp_path / "config.json").write_text('{"model_type": "gpt_oss"}')
    async with proving(tokenizer=str(tmp_path)) as proven:
        assert await _check(proven) == {"tokenizer": "ok", "template": "skipped"}


async def test_a_replica_that_does_not_tokenize_cannot_be_compared() -> None:
    async with proving() as proven:
        await proven.sims["a"].refuse()

        assert await _check(proven) == {"tokenizer": "skipped"}
