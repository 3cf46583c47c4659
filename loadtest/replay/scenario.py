"""Scenario: everything about a run but the trace, the strategy and the seed."""

from __future__ import annotations

from dataclasses import dataclass, field

from loadtest.replica.scheduler import Speeds


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """One replica. Blocks are those of the trace (512 tokens in Mooncake's); 0 blocks: there is no such tier."""

    l0_blocks: int = 600
    l1_blocks: int = 0
    l2_blocks: int = 0  # shared by all replicas
    l1_tokens_s: float = 120_000.0  # load rates
    l2_tokens_s: float = 34_000.0
    l2_fixed_s: float = 0.1  # until the first token from L2 is there
    speeds: Speeds = field(default_factory=Speeds)


@dataclass(frozen=True, slots=True)
class Change:
    """A replica joins with an empty cache, or leaves: it gets nothing new, and what it has goes on to its end."""

    at: float  # part of the trace's span, 0..1
    replica: int
    joins: bool


@dataclass(frozen=True, slots=True)
class Scenario:
    """The fleet, and what its gateways know of it."""

    replicas: int = 8
    engine: EngineOptions = field(default_factory=EngineOptions)
    load: float = 0.6  # of what the fleet could do; see load_level
    event_delay_s: float = 0.03  # from a cache's change to the gateways' index
    report_s: float = 0.05  # how old the replicas' own load reports get at a rival's gateway
    probe_s: float = 2.0  # the same at ours: PREFIXWAY_PROBE_INTERVAL_S
    streamed: float = 1.0  # part of the requests that are streamed: of others the gateway sees no first token
    gateways: int = 1  # requests go to any of them at random; they tell each other nothing
    rate_error: float = 1.0  # prefill rate the gateway assumes at first, over the true one
    speeds: tuple[float, ...] = ()  # true relative speed of the first replicas; the others have 1.0
    tells_speeds: bool = True  # whether the gateways are told them (`speed=`)
    publishes: bool = True  # whether replicas publish KV events
    estimates_l2: bool = False  # whether our own gateways estimate what lies in L2, which no event tells
    changes: tuple[Change, ...] = ()  # who joins is not there at first

    def speed(self, replica: int) -> float:
        """Of a replica relative to the others."""
        return self.speeds[replica] if replica < len(self.speeds) else 1.0
