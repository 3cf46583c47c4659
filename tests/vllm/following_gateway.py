"""A gateway that knows all that its replicas' events tell, and work sent through it one by one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import httpx

from tests.running_gateway import RunningGateway, running_gateway
from tests.vllm.asking import Asked, ask
from tests.vllm.event_watch import EventWatch
from tests.vllm.mixed_work import Turn
from tests.vllm.real_replicas import RealReplica


@contextmanager
def following_gateway(replicas: Sequence[RealReplica], **settings: str) -> Iterator[RunningGateway]:
    """``settings`` as those of :func:`running_gateway`."""
    with running_gateway([replica.url for replica in replicas], ready=True, command="serve", **settings) as gateway:
        gateway.wait(lambda: "tiny" in gateway.status()["models"])
        gateway.wait(lambda: all(each["events"].get("state") == "fresh" for each in gateway.replicas().values()))
        yield gateway


class OwnVerdict(NamedTuple):
    """What the gateway itself says of its predictions, in requests and tokens, and of faults."""

    requests: Counter[str]  # usage, counters, unverified
    unverified: Counter[str]  # by reason
    under_from: Counter[str]  # tokens there and not predicted, by where the engine had them from
    over_tokens: int
    miscounted: int
    trust: dict[str, float]  # by replica
    findings: list[Mapping[str, object]]

    @classmethod
    def of(cls, gateway: RunningGateway) -> OwnVerdict:
        """All of its replicas together."""
        known = gateway.replicas()
        told = [replica["truth"] for replica in known.values() if replica["truth"]]
        accuracy = [truth["accuracy"] for truth in told if "accuracy" in truth]
        return cls(
            _sum(truth["requests"] for truth in told),
            _sum(truth["unverified"] for truth in told),
            _sum(each["under_tokens_from"] for each in accuracy),
            sum(each["over_tokens"] for each in accuracy),
            sum(truth["miscounted"] for truth in told),
            {name: replica["events"]["trust"] for name, replica in known.items()},
            gateway.status()["findings"],
        )

    @property
    def unverified_share(self) -> float:
        """Of all requests."""
        return self.requests["unverified"] / max(1, self.requests.total())


def _sum(counts: Iterable[Mapping[str, int]]) -> Counter[str]:
    total: Counter[str] = Counter()
    for each in counts:
        total.update(each)
    return total


async def one_by_one(
    client: httpx.AsyncClient, gateway: RunningGateway, watch: EventWatch, turns: Iterable[Turn]
) -> list[Asked]:
    """Each as soon as the gateway knows all that the one before changed."""
    asked = []
    for turn in turns:
        watch.settle(gateway)
        asked.append(await ask(client, turn, settled=True))
    return asked


def begin_anew(gateway: RunningGateway, replica: RealReplica) -> None:
    """Start a killed engine, and wait until the gateway follows it."""
    before = gateway.replicas()[replica.id]["incarnation"]
    replica.start()
    replica.await_health()

    def is_followed() -> bool:
        known = gateway.replicas()[replica.id]
        return bool(known["healthy"] and known["incarnation"] != before and known["events"]["state"] == "fresh")

    gateway.wait(is_followed)
