"""session: one replica a session, few moves, and elsewhere while its home is too busy."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router_strategies import Candidate, RouteRequest, load

SESSIONS = [f"session-{number}" for number in range(1_000)]


def _fleet(replicas: int, **fields: float) -> list[Candidate]:
    return [Candidate(f"10.0.0.{number}:8000", **fields) for number in range(replicas)]  # type: ignore[arg-type]


def _chosen(session: str, fleet: list[Candidate], **options: object) -> tuple[str, str]:
    choice = load("session", options).select(RouteRequest(0, session), fleet)
    return choice.candidate.id, choice.reason


def _homes(fleet: list[Candidate]) -> dict[str, str]:
    strategy = load("session")
    return {name: strategy.select(RouteRequest(0, name), fleet).candidate.id for name in SESSIONS}


def test_sessions_spread_evenly() -> None:
    """Each of eight replicas is the home of its share of a thousand sessions, more or less."""
    counts = Counter(_homes(_fleet(8)).values())

    assert len(counts) == 8
    assert all(85 <= count <= 165 for count in counts.values()), counts


def test_a_home_does_not_depend_on_the_order_of_replicas() -> None:
    """Nor on who asked before."""
    assert _homes(_fleet(5)) == _homes(_fleet(5)[::-1])


def test_a_newcomer_takes_its_share_and_nothing_else_moves() -> None:
    """From four to five replicas about a fifth of the sessions move, all of them to the fifth."""
    before, after = _homes(_fleet(4)), _homes(_fleet(5))
    moved = [name for name in SESSIONS if before[name] != after[name]]

    assert 150 < len(moved) < 250
    assert {after[name] for name in moved} == {"10.0.0.4:8000"}


def test_only_the_sessions_of_one_that_leaves_move() -> None:
    """And they are spread over all others."""
    fleet = _fleet(5)
    before, after = _homes(fleet), _homes(fleet[1:])
    moved = [name for name in SESSIONS if before[name] != after[name]]

    assert {before[name] for name in moved} == {fleet[0].id}
    assert all(count > 20 for count in Counter(after[name] for name in moved).values())


def test_a_replica_of_twice_the_speed_is_home_of_twice_as_many() -> None:
    """Which moves sessions to it only."""
    fleet = _fleet(4)
    faster = [replace(fleet[0], speed=2.0), *fleet[1:]]
    before, after = _homes(fleet), _homes(faster)

    assert 330 < Counter(after.values())[fleet[0].id] < 470
    assert {after[name] for name in SESSIONS if before[name] != after[name]} == {fleet[0].id}


def test_every_gateway_finds_the_same_home_also_after_a_restart() -> None:
    """Another process, whose hash seed is another one, chooses alike."""
    program = (
        "from router_strategies import Candidate, RouteRequest, load\n"
        "fleet = [Candidate(f'10.0.0.{n}:8000') for n in range(8)]\n"
        "strategy = load('session')\n"
        "print(*[strategy.select(RouteRequest(0, f'session-{n}'), fleet).candidate.id for n in range(100)])"
    )
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    homes = _homes(_fleet(8))

    assert told.split() == [homes[name] for name in SESSIONS[:100]]


def test_the_homes_of_this_version_are_those_of_the_next() -> None:
    """While a new version is rolled out, old and new gateways must agree: these do not change."""
    homes = _homes(_fleet(8))

    assert [homes[name][7] for name in SESSIONS[:16]] == list("1007026763333720")


def test_a_busy_home_spills_to_one_other_replica_and_is_home_again() -> None:
    """To the second in the session's own order, however often; afterwards back."""
    fleet = _fleet(8)
    home = _chosen("s", fleet)[0]
    busy = [replace(each, promised_s=5.0 if each.id == home else 0.1, inflight=3) for each in fleet]
    spilled = {_chosen("s", busy) for _ in range(20)}

    assert len(spilled) == 1
    assert spilled == {(_chosen("s", [each for each in fleet if each.id != home])[0], "spill")}
    assert _chosen("s", fleet) == (home, "session")


def test_sessions_of_a_busy_home_spill_to_many() -> None:
    """Each has an order of its own, so no neighbour is flooded."""
    fleet = _fleet(8)
    homes = _homes(fleet)
    busy = [replace(each, promised_s=9.0 if each.id == fleet[0].id else 0.1) for each in fleet]
    spilled = Counter(_chosen(name, busy)[0] for name in SESSIONS if homes[name] == fleet[0].id)

    assert set(spilled) == {each.id for each in fleet[1:]}


def test_requests_that_decode_make_a_home_busy_too() -> None:
    """Where prompts are short and answers long there is no promised prefill."""
    fleet = _fleet(4)
    home = _chosen("s", fleet)[0]
    busy = [replace(each, inflight=200 if each.id == home else 10) for each in fleet]

    assert _chosen("s", busy)[1] == "spill"


@pytest.mark.parametrize(("home_s", "reason"), [(12.4, "session"), (13.5, "spill")])
def test_too_busy_is_what_is_well_above_the_mean(home_s: float, reason: str) -> None:
    """Of replicas that are all ten seconds behind one that is two more behind is no reason to move."""
    fleet = _fleet(8)
    home = _chosen("s", fleet)[0]
    busy = [replace(each, promised_s=home_s if each.id == home else 10.0) for each in fleet]

    assert _chosen("s", busy)[1] == reason


def test_a_session_spills_to_the_first_of_its_order_that_is_not_busy_either() -> None:
    """The second one is above the mean, too: the third is it."""
    fleet, order = _fleet(6), list[str]()
    while len(order) < 3:
        order.append(_chosen("s", [each for each in fleet if each.id not in order])[0])
    promised_s = {order[0]: 9.0, order[1]: 4.0}
    busy = [replace(each, promised_s=promised_s.get(each.id, 0.1)) for each in fleet]

    assert _chosen("s", busy) == (order[2], "spill")


def test_tiny_loads_move_nobody() -> None:
    """One request at an otherwise idle fleet is many times the mean."""
    fleet = _fleet(8)
    home = _chosen("s", fleet)[0]
    busy = [replace(each, promised_s=0.2, inflight=1) if each.id == home else each for each in fleet]

    assert _chosen("s", busy) == (home, "session")


def test_a_long_prompt_bears_a_longer_queue() -> None:
    """To compute four seconds of prefill anew costs more than to wait for two."""
    fleet = _fleet(8)
    home = _chosen("s", fleet)[0]
    busy = [replace(each, promised_s=2.0) if each.id == home else each for each in fleet]
    long = [replace(each, prefill_s=4.0) for each in busy]

    assert (_chosen("s", busy)[1], _chosen("s", long)) == ("spill", (home, "session"))


def test_without_a_session_the_least_loaded() -> None:
    """No session is not the session named "": requests without one do not share a home."""
    idle, strategy = _fleet(4), load("session", {"seed": 1})
    chosen = Counter(strategy.select(RouteRequest(0), idle).candidate.id for _ in range(400))
    busy = [replace(each, inflight=number) for number, each in enumerate(_fleet(4, promised_s=0.0))]

    assert all(60 < count < 140 for count in chosen.values()), chosen
    assert _chosen("", busy[::-1]) == ("10.0.0.0:8000", "least_loaded")


def test_one_that_failed_is_followed_by_the_next_in_the_order() -> None:
    """A retry sees a fleet without it."""
    fleet = _fleet(6)
    first = _chosen("s", fleet)[0]
    second = _chosen("s", [each for each in fleet if each.id != first])
    busy = [replace(each, promised_s=9.0) if each.id == first else each for each in fleet]

    assert second[1] == "session"
    assert _chosen("s", busy)[0] == second[0]


@given(st.lists(st.tuples(st.floats(0, 1e6), st.integers(0, 1_000), st.floats(0.1, 10)), min_size=2, max_size=8))
def test_it_never_spills_to_a_busier_replica(loads: list[tuple[float, int, float]]) -> None:
    """Whoever takes over has less to do than the home."""
    fleet = [
        Candidate(f"r{number}", promised_s=promised_s, inflight=inflight, speed=speed)
        for number, (promised_s, inflight, speed) in enumerate(loads)
    ]
    idle = [Candidate(each.id, speed=each.speed) for each in fleet]
    home = next(each for each in fleet if each.id == _chosen("s", idle)[0])
    choice = load("session").select(RouteRequest(0, "s"), fleet)

    if choice.reason == "spill":
        assert _load(choice.candidate) < _load(home)


def _load(candidate: Candidate) -> float:
    return candidate.promised_s + 0.03 * (candidate.inflight + 1) / candidate.speed


def test_ever_new_replicas_are_not_remembered_for_ever() -> None:
    """Pods come with ever new names; the homes stay what they are."""
    strategy = load("session")
    first = _fleet(4)
    home = strategy.select(RouteRequest(0, "s"), first).candidate.id
    for generation in range(15_000):
        strategy.select(RouteRequest(0, "s"), [Candidate(f"{generation}-{number}") for number in range(2)])

    assert len(pickle.dumps(strategy)) < 400_000  # of 30,000 it would be 750,000
    assert strategy.select(RouteRequest(0, "s"), first).candidate.id == home


def test_any_text_names_a_session() -> None:
    """Also what no encoder takes."""
    assert _chosen("\ud800", _fleet(3))[1] == "session"


@pytest.mark.parametrize(("option", "value"), [("bound", 0.9), ("slack_s", -1.0), ("moving", -1.0), ("request_s", -1)])
def test_options_are_checked(option: str, value: float) -> None:
    """A bound below the mean could be kept by nobody."""
    with pytest.raises(ValueError, match=option):
        load("session", {option: value})
