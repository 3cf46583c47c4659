"""Laws that every rival obeys. A new file in the package is tested here by itself."""

from __future__ import annotations

import inspect
import re
import sys
from collections import Counter
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadtest.rivals import Rival, RivalRequest, View, available, load
from tests.loadtest.rivals.hand_made import asked

counts = st.integers(0, 300)
chains = st.lists(st.integers(0, 3), max_size=6).map(
    lambda steps: tuple(hash((*steps[:end],)) for end in range(len(steps)))
)


@st.composite
def fleets(draw: st.DrawFn) -> list[View]:
    """Any of eight replicas, at least one, in any state."""
    numbers = draw(st.lists(st.integers(0, 7), min_size=1, max_size=8, unique=True))
    return [
        View(
            number,
            capacity_blocks=draw(st.sampled_from((0, 3, 600))),
            l0_tokens=draw(st.sampled_from((0, 512, 1024))),
            l1_tokens=draw(st.sampled_from((0, 512))),
            inflight=draw(counts),
            pending=draw(counts),
            pending_tokens=draw(st.integers(0, 1_000_000)),
            inflight_blocks=draw(counts),
            waiting=draw(counts),
            running=draw(counts),
            kv_usage=draw(st.floats(0, 1)),
            queued_tokens=draw(st.integers(0, 1_000_000)),
            running_tokens=draw(st.integers(0, 1_000_000)),
        )
        for number in numbers
    ]


@st.composite
def requests(draw: st.DrawFn) -> RivalRequest:
    """A prompt of a few blocks that many others begin with too; or of none."""
    blocks = draw(chains)
    tokens = len(blocks) * 512 + draw(st.integers(1, 511))
    return RivalRequest(draw(counts), tokens, 512, blocks, draw(st.sampled_from(("", "a", "b"))), 0.0)


@settings(max_examples=40)
@given(asking=st.lists(st.tuples(requests(), fleets(), st.integers(0, 1000)), max_size=6))
def test_chooses_one_of_the_views_whatever_happens(asking: list[tuple[RivalRequest, list[View], int]]) -> None:
    """Through choices, ends and departures in any state of the fleet; and it computes at most the whole prompt."""
    for name in available():
        _ask(name, load(name), asking)


@pytest.mark.parametrize("name", available())
def test_the_same_seed_chooses_the_same(name: str) -> None:
    """Two of one seed agree on every choice."""
    assert _choices(load(name, {"seed": 7})) == _choices(load(name, {"seed": 7}))


@pytest.mark.parametrize("name", available())
def test_equal_replicas_share_what_is_new(name: str) -> None:
    """1,000 prompts and sessions that nobody knows go to each of four equal, idle replicas 150 to 350 times."""
    rival = load(name, {"seed": 3})
    counts = Counter[int]()

    for number in range(1000):
        request = asked((2 * number, 2 * number + 1), session=f"s{number}", now=float(number), number=number)
        view = rival.select(request, [View(n, capacity_blocks=600) for n in range(4)]).view
        rival.ended(request, view)
        counts[view.number] += 1

    assert all(150 <= counts[number] <= 350 for number in range(4)), counts


@pytest.mark.parametrize("name", available())
def test_what_a_replica_had_goes_with_it(name: str) -> None:
    """One that left and came back is believed to have nothing of what it was sent before."""
    rival = load(name)
    request, views = asked((1, 2, 3), tokens=350, session="s"), [View(5, capacity_blocks=600)]
    cold = rival.select(request, views).prefill_tokens
    rival.select(request, views)
    rival.left(5)

    assert rival.select(request, [View(5, capacity_blocks=600)]).prefill_tokens == cold


@pytest.mark.parametrize("name", [name for name in available() if not load(name).reads_events])
def test_one_that_reads_no_events_hears_none(name: str) -> None:
    """It chooses alike whatever the views say of what is cached."""
    assert _choices(load(name, {"seed": 7}), cached=512) == _choices(load(name, {"seed": 7}))


@pytest.mark.parametrize("name", available())
def test_says_where_its_formula_is_from(name: str) -> None:
    """A reader can look up the source: the file names a year, a version, a commit or a paper."""
    source = inspect.getsource(sys.modules[type(load(name)).__module__])

    assert re.search(r"20[12]\d|arXiv|\d\.\d+\.\d|at [0-9a-f]{8}", source)


def test_an_unknown_name_lists_the_known_ones() -> None:
    """A wrong name is an error that says what there is."""
    with pytest.raises(ValueError, match=r"no rival is named 'best'; there are .*cache_aware, .*round_robin"):
        load("best")


def test_an_unknown_option_lists_the_known_ones() -> None:
    """A wrong option is an error that says what there is; what a rival remembers is none."""
    with pytest.raises(ValueError, match="session has no option _ring; it has seed, virtual_nodes, placement"):
        load("session", {"_ring": 1})


def _ask(name: str, rival: Rival, asking: list[tuple[RivalRequest, list[View], int]]) -> None:
    now = 0.0
    for request, views, later in asking:
        now += later
        request = request._replace(now=now)
        view, prefill_tokens = rival.select(request, views)
        assert any(view is one for one in views), name
        assert 0 <= prefill_tokens <= request.prompt_tokens, name
        if later % 3 == 0:
            rival.left(view.number)
        rival.ended(request, view)


def _choices(rival: Rival, cached: int = 0) -> list[int]:
    random, views, chosen = Random(1), [View(n, capacity_blocks=600) for n in range(5)], []
    views[2].l0_tokens = views[3].l1_tokens = cached
    for number in range(200):
        start = random.randrange(10) * 100
        request = asked(range(start, start + random.randrange(9)), session=f"s{number % 20}", now=float(number))
        view = rival.select(request, views).view
        view.inflight += 1
        chosen.append(view.number)
        if number % 3:
            done = views[random.randrange(5)]
            done.inflight = max(0, done.inflight - 1)
    return chosen
