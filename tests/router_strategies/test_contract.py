"""Laws that every strategy obeys. A new file in the package is tested here by itself."""

from __future__ import annotations

import ast
import copy
import sys
import types
from dataclasses import asdict, fields
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import router_strategies
from router_strategies import REASONS, Candidate, Choice, RouteRequest, Strategy, available, canonical, describe, load

amounts = st.floats(0, 1e6, allow_nan=False)
counts = st.integers(0, 100_000)


@st.composite
def fleets(draw: st.DrawFn) -> list[Candidate]:
    """One to eight replicas in any state."""
    return [
        Candidate(
            id=f"replica-{number}",
            l0_tokens=draw(counts),
            expected_tokens=draw(counts),
            trust=draw(st.floats(0, 1)),
            prefill_s=draw(amounts),
            promised_s=draw(amounts),
            kv_blocks_used=draw(amounts),
            kv_blocks_needed=draw(amounts),
            kv_blocks_capacity=draw(amounts),
            decoding=draw(counts),
            decode_s=draw(amounts),
            inflight=draw(counts),
            inflight_tokens=draw(counts),
            waiting=draw(st.floats(-1, 1000)),
            sharing=draw(st.integers(0, 50)),
            speed=draw(st.floats(0.01, 100)),
        )
        for number in range(draw(st.integers(1, 8)))
    ]


requests = st.builds(
    RouteRequest,
    prompt_tokens=counts,
    session=st.text(max_size=5),
    now=amounts,
    utilisation=st.floats(0, 1),
    model=st.just("m"),
)


@pytest.mark.parametrize("name", available())
@given(request=requests, fleet=fleets())
def test_chooses_one_of_the_candidates_and_changes_none(
    name: str, request: RouteRequest, fleet: list[Candidate]
) -> None:
    """The choice is a candidate, its reason is in the vocabulary, and the snapshot is as it was."""
    before = copy.deepcopy(fleet)

    choice = load(name).select(request, fleet)

    assert any(choice.candidate is candidate for candidate in fleet)
    assert choice.reason in REASONS
    assert [asdict(c) for c in fleet] == [asdict(c) for c in before]


@pytest.mark.parametrize("name", available())
@given(request=requests, fleet=fleets())
def test_costs_are_what_it_chooses_by(name: str, request: RouteRequest, fleet: list[Candidate]) -> None:
    """One for each candidate, of which the chosen one's is the least; to tell them changes neither it nor them."""
    before = copy.deepcopy(fleet)
    strategy, unasked = _seeded(name), _seeded(name)
    strategy.select(request, fleet)  # so that one with a memory has something in it
    unasked.select(request, fleet)
    costs = strategy.costs(request, fleet)
    choice = strategy.select(request, fleet)

    assert choice == unasked.select(request, fleet)
    assert [asdict(c) for c in fleet] == [asdict(c) for c in before]
    if costs:
        assert len(costs) == len(fleet)
        chosen = next(cost for cost, candidate in zip(costs, fleet) if candidate is choice.candidate)
        assert chosen.compared == min(cost.compared for cost in costs)


@pytest.mark.parametrize("name", available())
@given(request=requests, fleet=fleets())
def test_a_copy_chooses_as_it_would(name: str, request: RouteRequest, fleet: list[Candidate]) -> None:
    """Whoever wants to know what comes next asks a copy, memory, seed and all; the strategy itself does not move."""
    strategy = _seeded(name)
    strategy.select(request, fleet)
    foreseen = copy.deepcopy(strategy).select(request, fleet)

    assert strategy.select(request, fleet) == foreseen


NAMED = ("id", "speed")


def _seeded(name: str) -> Strategy:
    return load(name, {"seed": 1} if any(field.name == "seed" for field in fields(load(name))) else {})  # type: ignore[arg-type]


def _chosen(name: str, request: RouteRequest, fleet: list[Candidate]) -> Choice:
    return _seeded(name).select(request, fleet)


@pytest.mark.parametrize("name", [name for name in available() if not load(name).reads_prompt])
@given(request=requests, fleet=fleets())
def test_one_that_does_not_read_the_prompt_does_not(name: str, request: RouteRequest, fleet: list[Candidate]) -> None:
    """It chooses alike whatever is held of the prompt, and however long that is."""
    nothing = {"l0_tokens": 0, "l1_tokens": 0, "l2_tokens": 0, "expected_tokens": 0, "sharing": 0}
    unread = [Candidate(**{**asdict(candidate), **nothing}) for candidate in fleet]
    with_prompt = _chosen(name, request, fleet)
    without = _chosen(name, request._replace(prompt_tokens=0), unread)

    assert (with_prompt.candidate.id, with_prompt.reason) == (without.candidate.id, without.reason)


@pytest.mark.parametrize("name", [name for name in available() if not load(name).reads_load])
@given(request=requests, fleet=fleets())
def test_one_that_does_not_read_loads_does_not(name: str, request: RouteRequest, fleet: list[Candidate]) -> None:
    """It chooses alike among candidates that have only a name and a speed."""
    named = [Candidate(**{field: getattr(candidate, field) for field in NAMED}) for candidate in fleet]
    with_loads, without = _chosen(name, request, fleet), _chosen(name, request._replace(utilisation=0.0), named)

    assert (with_loads.candidate.id, with_loads.reason) == (without.candidate.id, without.reason)


@pytest.mark.parametrize("name", available())
def test_an_only_candidate_is_chosen_for_that_reason(name: str) -> None:
    """With one replica there is nothing to choose, and the reason says so."""
    choice = load(name).select(RouteRequest(0), [Candidate("a")])

    assert (choice.candidate.id, choice.reason) == ("a", "only_candidate")


@pytest.mark.parametrize("name", available())
def test_equal_replicas_share_evenly(name: str) -> None:
    """1,000 choices among four equal, idle replicas give each between 200 and 300, more or less without a seed."""
    seeded = any(field.name == "seed" for field in fields(load(name)))  # type: ignore[arg-type]
    strategy = load(name, {"seed": 1} if seeded else {})
    margin = 0 if seeded else 40
    counts = dict.fromkeys("abcd", 0)

    for _ in range(1000):
        counts[strategy.select(RouteRequest(10), [Candidate(id_) for id_ in "abcd"]).candidate.id] += 1

    assert all(200 - margin <= count <= 300 + margin for count in counts.values()), counts


@pytest.mark.parametrize("name", available())
def test_spelling_does_not_matter(name: str) -> None:
    """Case, dashes and missing underscores name the same strategy."""
    assert canonical(name.upper().replace("_", "-")) == name
    assert canonical(name.replace("_", "")) == name


@pytest.mark.parametrize("name", available())
def test_has_a_help_text(name: str) -> None:
    """The module's docstring is what users read."""
    assert len(describe(name)) > 40


def test_an_unknown_name_lists_the_known_ones() -> None:
    """A wrong name is an error that says what there is."""
    with pytest.raises(ValueError, match="no strategy is named 'fastest'; there are kv_aware, least_loaded"):
        load("fastest")


def test_an_unknown_option_lists_the_known_ones() -> None:
    """A wrong option is an error that says what there is."""
    with pytest.raises(ValueError, match="kv_aware has no option 'weight'; it has cached_weight, hot_gain"):
        load("kv_aware", {"weight": 1})


@pytest.mark.parametrize(
    ("name", "option"),
    [("kv_aware", "cached_weight"), ("prefix_aware", "bound"), ("least_loaded", "request_s"), ("session", "slack_s")],
)
def test_a_negative_weight_is_refused(name: str, option: str) -> None:
    """Options are checked when the strategy is built."""
    with pytest.raises(ValueError, match="negative"):
        load(name, {option: -1})


@pytest.mark.parametrize("value", ["4", float("nan"), float("inf"), True, None, [1]])
def test_a_weight_that_is_no_number_is_refused(value: object) -> None:
    """NaN, which JSON's readers take, would make every comparison false and every choice the first one."""
    with pytest.raises(ValueError, match="kv_aware: cached_weight must be a number, not "):
        load("kv_aware", {"cached_weight": value})


@pytest.mark.parametrize("name", available())
def test_knows_the_standard_library_and_the_contract_only(name: str) -> None:
    """A strategy imports no other strategy: what two share has a file with an underscore."""
    source = Path(router_strategies.__file__).with_name(f"{name}.py").read_text()
    imported: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom):
            imported.add(node.module or "")
        elif isinstance(node, ast.Import):
            imported.update(alias.name for alias in node.names)
    ours = {module for module in imported if module.split(".")[0] not in sys.stdlib_module_names}

    assert all(module.startswith("router_strategies._") for module in ours), ours


def test_the_readmes_strategy_is_one() -> None:
    """The example of ten lines keeps the contract as it stands there."""
    readme = Path(__file__).parents[2].joinpath("README.md").read_text()
    code = readme.partition("## Add a strategy")[2].partition("```python\n")[2].partition("```")[0]
    module = types.ModuleType("readme_strategy")
    sys.modules[module.__name__] = module  # dataclasses look there
    try:
        exec(compile(code, "README.md", "exec"), module.__dict__)
        strategy: Strategy = module.__dict__["STRATEGY"]()
        alone = strategy.select(RouteRequest(0), [Candidate("a")])
        fuller, freer = Candidate("a", kv_usage=0.9), Candidate("b", kv_usage=0.1)
        chosen = strategy.select(RouteRequest(0), [fuller, freer])
    finally:
        del sys.modules[module.__name__]

    assert alone.reason == "only_candidate"
    assert chosen.candidate is freer
    assert chosen.reason in REASONS
