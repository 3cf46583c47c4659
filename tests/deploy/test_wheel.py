"""What the Dockerfile says is carried out, without a container engine: built, installed and run as it would be.

Its own instructions are followed: what is copied from the context, each stage's pip command, the environment, the user,
the health check. See tests/deploy/container.py for what of a container there is.
"""

from __future__ import annotations

import asyncio
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from scripts.image_constraints import canonical
from tests.deploy.container import contained
from tests.deploy.dockerfile import ROOT, context, project_files, stages
from tests.fakes.scripted_server import closed_port
from tests.fakes.waiting import eventually

BUILD, IMAGE = stages((ROOT / "Dockerfile").read_text())
ENTRYPOINT = IMAGE.one("ENTRYPOINT").words


class Image:
    """A bare prefix with what the image has, in ``folder``; and commands in it, as in a container of it."""

    def __init__(self, folder: Path) -> None:
        self._source = folder / "source"
        self.prefix = folder / "prefix"
        self.wheels = folder / "wheels"

    def build(self) -> None:
        """The first stage, from nothing but the context; then the second one's installation."""
        self._copy_context()
        self._run(BUILD.one("RUN").text, cwd=self._source)
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", self.prefix], check=True)
        install = IMAGE.one("RUN").text.partition("pip install")[2].partition("&&")[0]
        self._run(f"pip --python {self.prefix}/bin/python install {install}", cwd=self.prefix)

    def start(self, command: Sequence[str], **settings: str) -> subprocess.Popen[str]:
        """A container with that command; what it prints can be read."""
        environ = {
            **IMAGE.pairs("ENV"),
            "PATH": f"{self.prefix}/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            **{f"PREFIXWAY_{name.upper()}": value for name, value in settings.items()},
        }
        uid = int(IMAGE.one("USER").text.partition(":")[0])
        argv, given = contained(command, environ, kept=[self.prefix, Path(sys.base_prefix)], user=uid)
        return subprocess.Popen(argv, env=given, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def run(self, command: Sequence[str], **settings: str) -> tuple[int, str]:
        """The exit status and what it printed."""
        process = self.start(command, **settings)
        text, _ = process.communicate(timeout=120)
        return process.returncode, text

    def _copy_context(self) -> None:
        sent = context((ROOT / ".dockerignore").read_text(), project_files())
        for copy in BUILD.all("COPY"):
            *sources, target = copy.words
            for source in sources:
                place = self._source / target / source if target == "./" else self._source / target
                for file in sent:
                    if file == source or file.startswith(f"{source}/"):
                        to = place if file == source else place / Path(file).relative_to(source)
                        to.parent.mkdir(parents=True, exist_ok=True)
                        shutil.copy(ROOT / file, to)

    def _run(self, command: str, cwd: Path) -> None:
        pip = f"{sys.executable} -m pip --disable-pip-version-check"
        line = re.sub(r"^(--mount=\S+ )*pip ", f"{pip} ", command).replace("/wheels", str(self.wheels))
        ran = subprocess.run(line, cwd=cwd, shell=True, capture_output=True, text=True, check=False)
        assert ran.returncode == 0, f"{line}\n{ran.stdout}\n{ran.stderr}"


async def test_the_image_is_built_and_runs(tmp_path: Path) -> None:
    """One test for all of it, since building takes most of its time; the demo plays meanwhile."""
    image = Image(tmp_path)
    image.build()
    demo = image.start([*ENTRYPOINT, "demo", "--turns", "1"])
    try:
        await _serves_and_its_health_check_tells(image)
        _checks_settings(image)
        _writes_temporary_files_only(image)
        _has_the_versions_that_were_written_down(image)
    finally:
        text, _ = await asyncio.to_thread(demo.communicate)
    _played_every_strategy(demo.returncode, text)


def _played_every_strategy(status: int, text: str) -> None:
    """As nobody in particular, on a read-only root, with no capability: and nothing failed."""
    assert status == 0, text
    rows = re.findall(r"^(\w+) +[\d.]+% .* (\d+)$", text, re.MULTILINE)
    assert rows == [(name, "0") for name in ("round_robin", "least_loaded", "prefix_aware", "kv_aware")]


async def _serves_and_its_health_check_tells(image: Image) -> None:
    """Healthy while it serves, although it has no replica; not ready; ended by the stop signal, unhealthy then."""
    check = IMAGE.health_check
    settings = {
        "listen": f"127.0.0.1:{closed_port()}",
        "metrics_listen": f"0.0.0.0:{closed_port()}",
        "admin_listen": "127.0.0.1:0",
        "linger_s": "0",
        "strict_env": "true",
    }
    gateway = image.start([*ENTRYPOINT, *IMAGE.one("CMD").words], **settings)
    try:
        await eventually(lambda: image.run(check, **settings) == (0, "ok\n"))
        assert image.run([*check, "--ready"], **settings) == (1, "not ready\n")
    finally:
        gateway.send_signal(signal.Signals[IMAGE.one("STOPSIGNAL").text])
        text, _ = await asyncio.to_thread(gateway.communicate)
    status, refusal = image.run(check, **settings)
    assert gateway.returncode == 0, text
    assert status == 1
    assert "/livez: " in refusal


def _checks_settings(image: Image) -> None:
    """As an init container does: with what Redis needs, and with a mistake named."""
    command = [*ENTRYPOINT, "check", "--config-only"]
    assert image.run(command, redis_url="redis://valkey:6379", replicas="http://a:8000")[0] == 0
    status, text = image.run(command, strategi="kv_aware")
    assert status == 1
    assert "PREFIXWAY_STRATEGY" in text


def _writes_temporary_files_only(image: Image) -> None:
    """What the other steps prove is proved on a root, and an installation, that cannot be written."""
    write = "import pathlib, sys; pathlib.Path(sys.argv[1], 'written').write_text('')"
    refused = [image.run(["python", "-c", write, str(place)])[1] for place in (image.prefix, "/var/tmp", "/")]
    assert image.run(["python", "-c", write, "/tmp"]) == (0, "")
    assert all("Read-only file system" in text for text in refused), refused


def _has_the_versions_that_were_written_down(image: Image) -> None:
    """deploy/constraints.txt names what is in the image, all of it, and no more."""
    wheels = [wheel.name.split("-")[:2] for wheel in image.wheels.iterdir()]
    built = {f"{canonical(name)}=={version}" for name, version in wheels if name != "prefixway"}
    lines = (ROOT / "deploy" / "constraints.txt").read_text().splitlines()
    wanted = {line for line in lines if not line.startswith("#")}
    assert built == wanted, "python scripts/image_constraints.py writes it anew"
