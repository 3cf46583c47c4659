"""What most likely lies in shared storage: whole chunks, from the first token on, for a while."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.kv.l2_estimate import L2Estimate
from gateway.prompt.blocks import chain_root, extend_chain, pack_tokens

PROMPT = list(range(2000))


def chain(
    prompt: list[int] = PROMPT, size: int = 16, *, namespace: str = "m", lora: str = "", salt: str = ""
) -> list[int]:
    return extend_chain(chain_root(b"secret", namespace, lora, salt, size), pack_tokens(prompt), size)


@pytest.mark.parametrize(
    ("size", "tokens"),
    [(16, 1792), (32, 1792), (64, 1792), (128, 1792), (256, 1792), (48, 1792), (512, 1536), (768, 1536)],
)
def test_whole_chunks_of_what_was_finished(size: int, tokens: int) -> None:
    """2,000 tokens are 7 chunks of 256, however large the blocks are that they are known by; never more."""
    estimate = L2Estimate()
    estimate.finished(chain(size=size), size, now=0.0)

    assert estimate.match({size: chain(size=size)}, now=1.0) == tokens
    assert estimate.match({size: chain(PROMPT[:250], size)}, now=1.0) == 0


@pytest.mark.parametrize("size", [16, 48, 512])
def test_only_as_far_as_prompts_are_the_same(size: int) -> None:
    """A prompt that goes another way after 1,100 tokens shares four chunks, in blocks of any size."""
    estimate = L2Estimate()
    estimate.finished(chain(size=size), size, now=0.0)
    other = [*PROMPT[:1100], *range(5000, 6000)]

    assert estimate.match({size: chain(other, size)}, now=1.0) == 1024


@pytest.mark.parametrize("other", [{"namespace": "n"}, {"lora": "ad"}, {"salt": "s"}])
def test_what_makes_other_blocks_makes_other_chunks(other: dict[str, str]) -> None:
    """A prompt of another model, adapter or salt lies elsewhere."""
    estimate = L2Estimate()
    estimate.finished(chain(), 16, now=0.0)

    assert estimate.match({16: chain(**other)}, now=1.0) == 0  # type: ignore[arg-type]


def test_the_longest_of_several_block_sizes_counts() -> None:
    """Where replicas have blocks of several sizes a prompt is known by those of the one that had it."""
    estimate = L2Estimate()
    estimate.finished(chain(size=32), 32, now=0.0)
    estimate.finished(chain(PROMPT[:300]), 16, now=0.0)

    assert estimate.match({16: chain(), 32: chain(size=32)}, now=1.0) == 1792


def test_time_ends_it_and_a_repetition_renews_it() -> None:
    """Exactly so many seconds after the last prompt that had it."""
    estimate = L2Estimate(ttl_s=60.0)
    estimate.finished(chain(), 16, now=0.0)
    estimate.finished(chain(PROMPT[:600]), 16, now=30.0)

    assert estimate.match({16: chain()}, now=59.9) == 1792
    assert estimate.match({16: chain()}, now=60.0) == 512
    assert estimate.match({16: chain()}, now=90.0) == 0


def test_what_time_has_ended_takes_no_memory() -> None:
    """It is forgotten as others come, or when somebody says what time it is."""
    estimate = L2Estimate(ttl_s=60.0)
    estimate.finished(chain(), 16, now=0.0)
    estimate.finished(chain(list(range(9000, 9300))), 16, now=61.0)
    assert estimate.chunks == 1

    estimate.expire(121.0)
    assert estimate.chunks == 0


def test_the_oldest_and_deepest_are_given_up_first() -> None:
    """What is left of a prompt are its first chunks, and a prompt finished later is left whole."""
    estimate = L2Estimate()
    late = chain(list(range(9000, 9600)))
    estimate.finished(chain(), 16, now=0.0)
    estimate.finished(late, 16, now=1.0)

    assert estimate.forget_oldest(5) == 5
    assert estimate.match({16: chain()}, now=2.0) == 512
    assert estimate.match({16: late}, now=2.0) == 512
    assert estimate.forget_oldest(100) == 4
    assert estimate.chunks == 0


def test_what_was_finished_again_is_not_the_oldest() -> None:
    """The other prompt goes first."""
    estimate = L2Estimate()
    other = chain(list(range(9000, 9600)))
    for at, prompt in enumerate((chain(), other, chain())):
        estimate.finished(prompt, 16, now=float(at))
    estimate.forget_oldest(2)

    assert estimate.match({16: chain(), 32: []}, now=3.0) == 1792
    assert estimate.match({16: other}, now=3.0) == 0


def test_it_can_be_emptied() -> None:
    """Under another secret nothing is found that was known."""
    estimate = L2Estimate()
    estimate.finished(chain(), 16, now=0.0)
    estimate.clear()

    assert (estimate.chunks, estimate.match({16: chain()}, now=1.0)) == (0, 0)


def _is_credited(estimate: L2Estimate, now: float) -> bool:
    return estimate.match({16: chain()}, now=now) > 0


def _failures(estimate: L2Estimate, now: float) -> int:
    """How often in a row nothing may be found until nothing is estimated any more; 100 at most."""
    for failures in range(100):
        if not _is_credited(estimate, now):
            return failures
        estimate.compared(1792, 0, now=now)
    return 100


def test_an_estimate_that_does_not_hold_is_not_gone_by() -> None:
    """After a dozen prompts of which nothing was found; it is tried again when that is a few minutes ago, and a few
    failures end that. One that holds by more than half goes on.
    """
    estimate, now = L2Estimate(), 1000.0
    estimate.finished(chain(), 16, now=now)
    failures = _failures(estimate, now)
    assert 8 <= failures <= 16
    assert not _is_credited(estimate, now + 10)
    assert 0 < _failures(estimate, now + 600) < failures

    fair = L2Estimate()
    fair.finished(chain(), 16, now=now)
    for _ in range(1000):
        fair.compared(1792, 1024, now=now)
    assert _is_credited(fair, now)
    assert fair.holds(now) == pytest.approx(1024 / 1792, abs=0.01)


def test_where_nobody_tells_it_is_believed() -> None:
    """Nothing was seen that speaks against it."""
    assert L2Estimate().holds(1000.0) == 1.0


def test_its_status_says_that_it_is_an_estimate() -> None:
    """And what it goes by."""
    estimate = L2Estimate(ttl_s=60.0)
    estimate.finished(chain(), 16, now=0.0)

    assert estimate.status(5.0) == {
        "kind": "estimate",
        "holds": 1.0,
        "ttl_s": 60.0,
        "chunk_tokens": 256,
        "chunks": 7,
        "finished_prompts": 1,
    }


_PROMPTS = st.lists(st.sampled_from([0, 1, 2]), min_size=1, max_size=8).map(
    lambda parts: [p for p in parts for _ in "abcde"]
)
_STEPS = st.lists(
    st.tuples(st.sampled_from(["finish", "wait", "forget"]), _PROMPTS, st.integers(1, 6)), min_size=1, max_size=30
)


@given(_STEPS, _PROMPTS, st.sampled_from([1, 2, 3, 4, 5, 6, 9]))
def test_it_knows_no_more_than_was_finished_and_leaves_no_holes(
    steps: list[tuple[str, list[int], int]], asked: list[int], size: int
) -> None:
    """Against the plain truth: the longest common beginning, in chunks of 6 tokens, of prompts finished lately; less
    where some was forgotten, and never a chunk without those before it.
    """
    estimate, now, finished = L2Estimate(ttl_s=10.0, chunk_tokens=6), 0.0, list[tuple[float, list[int]]]()
    has_forgotten = False
    for what, prompt, amount in steps:
        if what == "finish":
            estimate.finished(chain(prompt, size), size, now=now)
            finished.append((now, prompt))
        elif what == "wait":
            now += amount
        else:
            has_forgotten |= estimate.forget_oldest(amount) > 0

    def common(one: list[int], other: list[int]) -> int:
        same = next((n for n, (a, b) in enumerate(zip(one, other)) if a != b), min(len(one), len(other)))
        blocks = same // size
        return blocks * size // 6 * 6

    truth = max((common(asked, prompt) for at, prompt in finished if at + 10.0 > now), default=0)
    known = estimate.match({size: chain(asked, size)}, now=now)
    assert known <= truth if has_forgotten else known == truth
    shorter = [estimate.match({size: chain(asked[:end], size)}, now=now) for end in range(len(asked) + 1)]
    assert shorter == sorted(shorter)
