"""The contract between the gateway and a strategy.

A strategy is a synchronous function of a snapshot: it gets what is known about a request and one
:class:`Candidate` per replica that may serve it, and answers with a :class:`Choice`. No I/O, no clock.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Protocol


@dataclass(slots=True, eq=False)
class Candidate:
    """One replica as a strategy sees it. Mutable only because that is the cheapest to build: never changed.

    Tokens are prompt tokens. ``l0_tokens``, ``l1_tokens`` and ``l2_tokens`` are disjoint: what the replica
    would take from its GPU, then from its host memory, then from shared storage, as far as events tell
    (confirmed). ``expected_tokens`` adds prompts on their way to it whose blocks no event confirmed yet, and
    is what strategies decide by. ``l2_estimate`` are further tokens that it most likely can load from shared storage,
    by an estimate; they make ``prefill_s`` less, and nothing else.
    """

    id: str
    l0_tokens: int = 0
    l1_tokens: int = 0
    l2_tokens: int = 0
    expected_tokens: int = 0
    trust: float = 1.0  # 0..1, how far events of this replica are believed; already in prefill_s
    prefill_s: float = 0.0  # x: seconds of prefill and loading this request would cost here
    promised_s: float = 0.0  # W: seconds of prefill promised here and not yet done
    kv_blocks_used: float = 0.0  # blocks of requests in flight here
    kv_blocks_needed: float = 0.0  # blocks this request adds
    kv_blocks_capacity: float = 0.0  # 0: unknown
    decoding: int = 0  # requests past their first token
    decode_s: float = 0.0  # mean seconds from first to last token
    inflight: int = 0
    inflight_tokens: int = 0  # uncached prompt tokens of requests without a first token
    waiting: float = -1.0  # as the replica reported; -1: unknown
    running: float = -1.0
    kv_usage: float = -1.0  # 0..1
    reported_age_s: float = -1.0
    sharing: int = 0  # requests in flight here that share the deepest matched block
    speed: float = 1.0  # configured prefill rate relative to the other replicas
    l2_estimate: int = 0


class RouteRequest(NamedTuple):
    """The facts about a request that a strategy may see: never its text."""

    prompt_tokens: int  # 0: unknown
    session: str = ""  # "": none given
    now: float = 0.0  # seconds, monotonic
    utilisation: float = 0.0  # 0..1, prefill seconds promised per second and replica, the fleet's mean
    model: str = ""
    tried: frozenset[str] = frozenset()  # ids that failed already for this request; not among the candidates


class Choice(NamedTuple):
    """The chosen candidate, and in one word of :data:`REASONS` why."""

    candidate: Candidate
    reason: str


class Cost(NamedTuple):
    """What a strategy compares of one candidate, the first number first: the least wins, and equal ones are a tie.

    ``parts``: what that is made of, by names that explain themselves with their units.
    """

    compared: tuple[float, ...]
    parts: Mapping[str, float] = {}


#: Why a candidate was chosen. A metric label and an answer header: a fixed, short vocabulary.
REASONS = (
    "only_candidate",  # nothing to choose from
    "rotation",
    "least_loaded",
    "prefix",  # the longest known prefix decided
    "spill",  # a longer prefix, or the session's home, was elsewhere, and too busy
    "cost",  # least cost; the prefix gave no difference
    "session",  # its session's home
    "response",  # it keeps the response that the request refers to: no strategy's, the router's own
)


class Strategy(Protocol):
    """What a file of this package provides. Its dataclass fields are its options.

    ``reads_prompt``: whether it wants to know what of the prompt is held where. For one that does not, prompts are
    neither tokenized nor looked up: all token counts are 0 and the seconds come from the size of the body.
    ``reads_load``: whether it looks at more of a candidate than its ``id`` and ``speed``, and at ``utilisation``.
    Without, nothing else is filled in.
    """

    reads_prompt: ClassVar[bool] = True
    reads_load: ClassVar[bool] = True

    def select(self, request: RouteRequest, candidates: Sequence[Candidate]) -> Choice:
        """Choose one of ``candidates`` (at least one, in no particular order)."""
        ...

    def costs(self, request: RouteRequest, candidates: Sequence[Candidate]) -> Sequence[Cost]:
        """The very numbers that :meth:`select` would choose by now, in the order of ``candidates``; changes nothing.

        For people who ask why. Nothing: it does not choose by numbers.
        """
        return ()
