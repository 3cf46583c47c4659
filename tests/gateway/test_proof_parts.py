"""ProofParts in a whole gateway: /status and /metrics name what is wrong, and what checks send is nobody's request."""

from __future__ import annotations

import json

from loadtest.replica import ReplicaOptions
from tests.end_to_end.house import FAST, House, house
from tests.fakes.waiting import eventually

ONE = ReplicaOptions(speeds=FAST)


def _names(home: House) -> set[tuple[object, object]]:
    return {(finding["name"], finding["replica"]) for finding in home.gateway.proof.findings()}


async def test_a_broken_replica_is_named_on_all_pages_and_the_checks_count_nowhere() -> None:
    async with house(("a", "b"), ONE, background_checks="true") as home:
        home.replicas["b"].silent.template_preamble = "Odd. "
        await eventually(lambda: _names(home) == {("template_differs", "b")})

        status = (await home.client.get(f"http://127.0.0.1:{home.gateway.admin.port}/status")).json()
        page = await home.metrics()

        (finding,) = status["findings"]
        assert finding["severity"] == "wrong"
        assert finding["since_s"] >= 0
        assert finding["mend"]
        assert 'prefixway_findings{name="template_differs",replica="b"} 1.0' in page
        assert "prefixway_requests_total{" not in page
        assert "fox" not in json.dumps(status)


async def test_without_background_checks_nothing_is_sent_and_the_watch_still_watches() -> None:
    async with house(("a",), ONE, background_checks="false") as home:
        home.replicas["a"].silent.caches = False
        await eventually(lambda: _names(home) == {("prefix_caching_off", "a")})

        assert not [r for r in home.replicas["a"].requests if r.method == "POST"]
