"""How far the gateway's predictions are from what replicas had, under load and with evictions.

    python -m benchmarks.prediction_error

Conversations over three simulated replicas whose caches are too small for them. Predicted is what events had told of
the chosen replica when it was chosen (the receipt's ``l0``); actual is ``cached_tokens`` in the answer's usage.

*Under*: the first requests of an assistant come together, and find what the others of them store while they wait.
*Over*: what was evicted between the choice and the engine's step; nobody tells of that before the step has ended. It
shows where conversations come back just when their blocks are next to go (the row *oldest first*).
"""

from __future__ import annotations

import asyncio

from tests.end_to_end.prediction_error import Crowding, Measured, measured

ROWS: tuple[tuple[str, Crowding, str], ...] = (
    ("large caches", Crowding(capacity_blocks=4000), "kv_aware"),
    ("small caches", Crowding(), "kv_aware"),
    ("tiny caches", Crowding(capacity_blocks=300), "kv_aware"),
    ("tiny caches, twice as many people", Crowding(people=24, capacity_blocks=300), "kv_aware"),
    ("tiny caches, twice the work", Crowding(conversations=120, capacity_blocks=300), "kv_aware"),
    ("small caches, oldest first", Crowding(oldest_first=True), "kv_aware"),
    ("small caches", Crowding(), "prefix_aware"),
    ("small caches", Crowding(), "least_loaded"),
    ("small caches", Crowding(), "round_robin"),
)
_HEAD = f"{'':36}{'strategy':14}{'turns':>6}{'evicted':>9}{'hit':>7}{'error':>8}{'over':>8}{'under':>8}{'exact':>8}"


def _row(name: str, strategy: str, result: Measured) -> str:
    shares = f"{result.error:8.2%}{result.over:8.2%}{result.under:8.2%}{result.exact:8.1%}"
    failed = f"  {len(result.failures)} failed" if result.failures else ""
    return f"{name:36}{strategy:14}{len(result.turns):6}{result.evicted:9}{result.hit:7.1%}{shares}{failed}"


async def main() -> None:
    print(_HEAD)
    for name, crowding, strategy in ROWS:
        print(_row(name, strategy, await measured(crowding, strategy)), flush=True)


if __name__ == "__main__":
    asyncio.run(main())
