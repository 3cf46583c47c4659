"""The Dockerfile, as far as reading it tells; tests/deploy/test_wheel.py carries its instructions out."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gateway import __version__
from gateway.settings import Settings
from scripts.image_constraints import image_requirement
from tests.deploy.dockerfile import ROOT, context, project_files, stages

TEXT = (ROOT / "Dockerfile").read_text()
BUILD, IMAGE = stages(TEXT)


def hadolint(text: str) -> str:
    """Its complaints."""
    program = shutil.which("hadolint") or Path(sys.prefix) / "bin" / "hadolint"
    answer = subprocess.run([program, "--no-color", "-"], input=text, capture_output=True, text=True, check=False)
    return answer.stdout + answer.stderr


def test_hadolint_has_no_complaint() -> None:
    """And it has one about an image that is not pinned at all."""
    assert hadolint(TEXT) == ""
    assert "DL3006" in hadolint("FROM python\n")


def test_the_context_is_what_is_copied() -> None:
    """Each COPY finds its files, and nothing else is sent to the builder: no tests, no history, no secret."""
    ignore = (ROOT / ".dockerignore").read_text()
    sent = context(ignore, project_files())
    sources = [word for copy in BUILD.all("COPY") for word in copy.words[:-1]]
    copied = {file for file in sent for source in sources if file == source or file.startswith(f"{source}/")}

    assert all(any(file == source or file.startswith(f"{source}/") for file in sent) for source in sources)
    assert set(sent) == copied
    assert (
        context((ROOT / ".dockerignore").read_text(), ["gateway/__pycache__/x.pyc", ".env", "deploy/compose/x"]) == []
    )


@pytest.mark.parametrize(
    ("pattern", "left"),
    [
        ("*", []),
        ("*\n!a", ["a/b/c", "a/d"]),
        ("*\n!a\n**/b", ["a/d"]),
        ("*\n!a/d", ["a/d"]),
        ("a/*", ["e"]),
        ("# e\ne", ["a/b/c", "a/d"]),
    ],
)
def test_patterns_are_read_as_the_builder_reads_them(pattern: str, left: list[str]) -> None:
    """https://docs.docker.com/build/concepts/context/#dockerignore-files."""
    assert context(pattern, ["a/b/c", "a/d", "e"]) == left


def test_nobody_is_root_and_names_are_numbers() -> None:
    """Kubernetes' ``runAsNonRoot`` cannot look a name up; the account is made with those numbers."""
    user, group = IMAGE.one("USER").text.split(":")
    accounts = " ".join(run.text for run in IMAGE.all("RUN"))

    assert user.isdecimal()
    assert user != "0"
    assert f"groupadd --gid {group} " in accounts
    assert f"useradd --uid {user} --gid {group} " in accounts


def test_the_ports_are_those_of_the_settings() -> None:
    """The API's and the metrics'; the admin port is for this container alone."""
    defaults = Settings.from_env({})

    assert IMAGE.one("EXPOSE").words == [str(defaults.listen.port), str(defaults.metrics_listen.port)]


def test_the_label_has_the_version() -> None:
    """Unless the builder gives another."""
    assert IMAGE.pairs("LABEL")["org.opencontainers.image.version"] == "${VERSION}"
    assert f"VERSION={__version__}" in [argument.text for argument in IMAGE.all("ARG")]


def test_both_stages_stand_on_the_same_pinned_base() -> None:
    """A minor version of Python and a release of Debian, which whoever builds may replace by a digest."""
    argument = re.search(r"^ARG PYTHON=(\S+)$", TEXT, re.MULTILINE)

    assert argument is not None
    assert re.fullmatch(r"python:3\.\d+-slim-[a-z]+", argument[1])
    assert (BUILD.base, IMAGE.base) == ("${PYTHON} AS build", "${PYTHON}")


def test_what_is_built_is_what_is_installed() -> None:
    """The same extras in both stages, so that the second one misses no wheel."""
    (install,) = (run for run in IMAGE.all("RUN"))

    assert image_requirement(TEXT).removeprefix(".") in install.text
    assert "--no-index" in install.text
