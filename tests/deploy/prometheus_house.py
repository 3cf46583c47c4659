"""A real Prometheus on loopback, which scrapes what a test has started."""

from __future__ import annotations

import asyncio
import math
import tempfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, Self

import httpx
import yaml

from tests.debian_programs import program
from tests.fakes.scripted_server import closed_port


class Sample(NamedTuple):
    """One series at one moment. ``labels`` without ``__name__``."""

    labels: Mapping[str, str]
    value: float


class QueryRefused(Exception):
    """Prometheus does not take a query; says why."""


class Prometheus:
    """``async with Prometheus({"prefixway": ["127.0.0.1:9464"]}) as prometheus``: targets by job.

    ``rules``: files of rules, evaluated as often as everything is scraped. Skips its test where the program is not
    installed. Nothing is kept after the block. Its first scrape comes about five seconds after its start, whatever
    ``interval_s``: start it before what it scrapes, on ports that are known (``closed_port``).
    """

    def __init__(
        self, targets: Mapping[str, Sequence[str]], *, rules: Sequence[Path] = (), interval_s: float = 0.5
    ) -> None:
        self._program = program("usr/bin/prometheus")
        self._targets = targets
        self._rules = rules
        self._interval = f"{round(interval_s * 1000)}ms"
        self._port = closed_port()
        self._client = httpx.AsyncClient(base_url=self.url, trust_env=False, timeout=30)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    async def __aenter__(self) -> Self:
        self._folder = tempfile.TemporaryDirectory()
        folder = Path(self._folder.name)
        (folder / "prometheus.yml").write_text(yaml.safe_dump(self._config()))
        with (folder / "log").open("wb") as log:
            self._process = await asyncio.create_subprocess_exec(
                self._program,
                f"--config.file={folder / 'prometheus.yml'}",
                f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address=127.0.0.1:{self._port}",
                "--log.level=warn",
                stdout=log,
                stderr=log,
            )
        try:
            await self._until(self._is_ready, lambda: "it starts")
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._client.aclose()
        with suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()
        self._folder.cleanup()

    async def query(self, expression: str, at_s: float | None = None) -> list[Sample]:
        """What it is, or was ``at_s`` (Unix time), as ``/api/v1/query`` answers. Raises :class:`QueryRefused`."""
        moment = {} if at_s is None else {"time": str(at_s)}
        answer = (await self._client.post("/api/v1/query", data={"query": expression, **moment})).json()
        if answer["status"] != "success":
            raise QueryRefused(f"{answer['error']}: {expression}")
        result = answer["data"]["result"]
        if answer["data"]["resultType"] == "scalar":
            return [Sample({}, float(result[1]))]
        return [
            Sample({name: value for name, value in series["metric"].items() if name != "__name__"}, float(value))
            for series in result
            for _, value in [series["value"]]
        ]

    async def number(self, expression: str) -> float:
        """The value of a query that has one; NaN where it has none."""
        samples = await self.query(expression)
        assert len(samples) <= 1, f"{len(samples)} series: {expression}"
        return samples[0].value if samples else math.nan

    async def has_all(self, at_s: float) -> bool:
        """Whether every target's page came in time then: one that was late, or is not there, has no series then."""
        wanted = sum(map(len, self._targets.values()))
        return [sample.value for sample in await self.query("up", at_s)] == [1] * wanted

    async def until(self, expression: str, is_so: Callable[[list[Sample]], object], timeout_s: float = 30.0) -> None:
        """Return when what is scraped answers ``expression`` as it should."""
        last: list[Sample] = []

        async def holds() -> bool:
            nonlocal last
            last = await self.query(expression)
            return bool(is_so(last))

        await self._until(holds, lambda: f"{expression} is {last}", timeout_s)

    async def until_it_is(self, expression: str, value: float) -> None:
        """The same of a query that has one value, once it has one."""
        await self.until(expression, lambda samples: [sample.value for sample in samples] == [value])

    async def label_values(self, series: str, label: str) -> list[str]:
        """As Grafana asks for the values of a variable."""
        answer = await self._client.get(f"/api/v1/label/{label}/values", params={"match[]": series})
        values: list[str] = answer.raise_for_status().json()["data"]
        return values

    async def _until(
        self, is_so: Callable[[], Awaitable[bool]], what: Callable[[], str], timeout_s: float = 30.0
    ) -> None:
        deadline = asyncio.get_running_loop().time() + timeout_s
        while not await is_so():
            if self._process.returncode is not None:
                raise AssertionError(f"Prometheus ended: {(Path(self._folder.name) / 'log').read_text()}")
            if asyncio.get_running_loop().time() > deadline:
                raise AssertionError(f"not within {timeout_s} s: {what()}")
            await asyncio.sleep(0.05)

    async def _is_ready(self) -> bool:
        with suppress(httpx.TransportError):
            return (await self._client.get("/-/ready")).is_success
        return False

    def _config(self) -> object:
        return {
            "global": {"scrape_interval": self._interval, "evaluation_interval": self._interval},
            "rule_files": [str(file) for file in self._rules],
            "scrape_configs": [
                {"job_name": job, "static_configs": [{"targets": list(targets)}]}
                for job, targets in self._targets.items()
            ],
        }
