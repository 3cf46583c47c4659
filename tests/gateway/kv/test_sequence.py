"""Order, gaps, replays and restarts: the state machine by tables, then against a publisher that does it all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.kv.sequence import Apply, Lost, Replay, Restarted, Sequence, Step


def at(last: int, *, replayable: bool = True) -> Sequence:
    """A machine that is live and has applied batches 0 to ``last`` of process "a"."""
    machine = Sequence(replayable=replayable)
    if replayable:
        machine.connected()
        machine.replay_ended()
    for sequence in range(last + 1):
        machine.live(sequence, b"a%d" % sequence)
    assert (machine.last, machine.replaying) == (last, False)
    return machine


def test_a_first_connection_replays_from_the_start_while_live_batches_wait() -> None:
    """History first, then what came meanwhile, each once."""
    machine = Sequence(replayable=True)

    assert machine.connected() == [Replay(0)]
    assert machine.live(2, b"a2") == []
    assert machine.replayed(0, b"a0") == [Apply(0, b"a0")]
    assert machine.replayed(1, b"a1") == [Apply(1, b"a1")]
    assert machine.replayed(2, b"a2") == [Apply(2, b"a2")]
    assert machine.live(3, b"a3") == []
    assert machine.replay_ended() == [Apply(3, b"a3")]
    assert machine.live(4, b"a4") == [Apply(4, b"a4")]


def test_a_late_start_is_partial_and_no_loss() -> None:
    """A first replay that begins late leaves nothing to disbelieve."""
    machine = Sequence(replayable=True)
    machine.connected()

    assert machine.replayed(7, b"a7") == [Apply(7, b"a7")]
    assert machine.replay_ended() == []
    assert machine.live(8, b"a8") == [Apply(8, b"a8")]


def test_a_gap_is_replayed_from_the_last_batch_inclusive() -> None:
    """After 5 comes 8: 6 and 7 are fetched, 8 is not applied twice, and 9 needs no second replay."""
    machine = at(5)

    assert machine.live(8, b"a8") == [Replay(5)]
    assert machine.doubtful
    assert machine.replayed(5, b"a5") == []
    assert [machine.replayed(n, b"a%d" % n) for n in (6, 7, 8)] == [[Apply(n, b"a%d" % n)] for n in (6, 7, 8)]
    assert machine.replay_ended() == []
    assert machine.live(9, b"a9") == [Apply(9, b"a9")]
    assert (machine.gaps, machine.doubtful) == (1, False)


def test_a_gap_that_cannot_be_covered_is_a_loss() -> None:
    """A replay that starts later than wanted: purge, go on from there, and ask what of the rest is true."""
    machine = at(5)
    machine.live(9, b"a9")

    assert machine.replayed(8, b"a8") == [Lost("unreplayable"), Apply(8, b"a8"), Replay(8)]
    assert machine.replayed(8, b"a8") == []
    assert machine.replayed(9, b"a9") == [Apply(9, b"a9")]
    assert machine.replay_ended() == []


@pytest.mark.parametrize("doubt", ["connected", "restart_hinted"])
def test_the_same_last_batch_proves_the_same_process(doubt: str) -> None:
    """A reconnection or a hint alone changes nothing."""
    machine = at(5)

    steps = machine.connected() if doubt == "connected" else machine.restart_hinted()

    assert steps == [Replay(5)]
    assert machine.replayed(5, b"a5") == []
    assert machine.replay_ended() == []
    assert machine.live(6, b"a6") == [Apply(6, b"a6")]


def test_another_last_batch_is_another_process() -> None:
    """Same number, other bytes: the new process is read from its start."""
    machine = at(5)
    machine.connected()

    assert machine.replayed(5, b"b5") == [Restarted(), Replay(0)]
    assert machine.replayed(0, b"b0") == [Apply(0, b"b0")]


def test_no_last_batch_is_another_process() -> None:
    """A process that has not got that far yet replays nothing."""
    machine = at(5)
    machine.connected()

    assert machine.replay_ended() == [Restarted(), Replay(0)]


def test_a_number_that_goes_backwards_is_another_process() -> None:
    """Other bytes under a number seen before; the same bytes are a duplicate."""
    machine = at(5)

    assert machine.live(3, b"a3") == []
    assert machine.duplicates == 1
    assert machine.live(0, b"b0") == [Restarted(), Replay(0)]


def test_batches_of_a_process_that_is_gone_are_dropped() -> None:
    """What came before a replay was asked for, and is not in it, has no sender any more."""
    machine = at(5)
    machine.live(9, b"a9")
    assert machine.replayed(5, b"b5") == [Restarted(), Replay(0)]

    assert machine.replayed(0, b"b0") == [Apply(0, b"b0")]
    assert machine.replay_ended() == []
    assert machine.live(1, b"b1") == [Apply(1, b"b1")]


def test_a_straggler_of_the_old_process_is_found_out() -> None:
    """An old batch that arrives only after the restart was seen leads to another look, and is dropped."""
    machine = at(5)
    machine.connected()
    machine.replay_ended()
    machine.replayed(0, b"b0")
    machine.live(6, b"a6")

    assert machine.replay_ended() == [Replay(0)]
    assert machine.replayed(0, b"b0") == []
    assert machine.replay_ended() == []
    assert machine.last == 0


def test_replays_that_fail_are_asked_for_again_then_done_without() -> None:
    """After three failures what waited is used, and what was known is not believed."""
    machine = at(5)
    machine.live(8, b"a8")

    assert machine.replay_failed() == [Replay(5)]
    assert machine.replay_failed() == [Replay(5)]
    assert machine.replay_failed() == [Lost("replay_failed"), Lost("replay_failed"), Apply(8, b"a8")]
    assert not machine.replaying


def test_a_replay_that_stops_short_goes_on_where_it_stopped() -> None:
    """What it brought is kept; the next one starts from there, and is not the second failure in a row."""
    machine = Sequence(replayable=True)
    machine.connected()
    for sequence in range(4):
        assert machine.replayed(2 * sequence, b"x") != []
        machine.replayed(2 * sequence + 1, b"x")
        assert machine.replay_failed() == [Replay(2 * sequence + 1)]
        machine.replayed(2 * sequence + 1, b"x")


def test_a_quiet_check_that_fails_costs_nothing() -> None:
    """A replay port that died is no reason to disbelieve a stream without gaps."""
    machine = at(5)

    assert machine.quiet() == [Replay(5)]
    assert not machine.doubtful
    steps = [machine.replay_failed() for _ in range(3)]

    assert steps == [[Replay(5)], [Replay(5)], []]
    assert machine.live(6, b"a6") == [Apply(6, b"a6")]


@pytest.mark.parametrize(
    ("sequence", "payload", "steps"),
    [
        (6, b"a6", [Apply(6, b"a6")]),
        (5, b"a5", []),
        (8, b"a8", [Lost("gap"), Apply(8, b"a8")]),
        (0, b"b0", [Restarted(), Apply(0, b"b0")]),
        (2, b"b2", [Restarted(), Apply(2, b"b2")]),
    ],
)
def test_without_replay(sequence: int, payload: bytes, steps: list[Step]) -> None:
    """A gap is a loss and a number that goes backwards a new process."""
    assert at(5, replayable=False).live(sequence, payload) == steps


def test_without_replay_a_new_connection_is_a_loss() -> None:
    """Nobody can say what passed; a first connection has nothing to lose, nor has a late first batch."""
    machine = Sequence(replayable=False)
    assert machine.connected() == []
    assert machine.live(4, b"a4") == [Apply(4, b"a4")]

    assert machine.connected() == [Lost("reconnected")]
    assert machine.restart_hinted() == [Restarted()]


def test_waiting_batches_are_bounded() -> None:
    """Those that do not fit are fetched by a replay."""
    machine = Sequence(replayable=True, max_waiting=2)
    machine.connected()
    for sequence in range(5):
        assert machine.live(sequence, b"a%d" % sequence) == []

    assert machine.replay_ended() == [Replay(0)]


@dataclass
class _Publisher:
    """Processes, each with its numbered batches; keeps the last ``buffer`` for replay."""

    buffer: int
    process: int = 0
    sent: list[bytes] = field(default_factory=list)

    def publish(self) -> tuple[int, bytes]:
        self.sent.append(b"%d:%d" % (self.process, len(self.sent)))
        return len(self.sent) - 1, self.sent[-1]

    def restart(self) -> None:
        self.process += 1
        self.sent = []

    def kept(self, first: int) -> list[tuple[int, bytes]]:
        start = max(first, len(self.sent) - self.buffer)
        return list(enumerate(self.sent))[start:]


@dataclass
class _Follower:
    """What a consumer holds: the batches applied since it last lost or forgot everything."""

    held: list[bytes] = field(default_factory=list)
    replay: list[tuple[int, bytes] | None] = field(default_factory=list)

    def take(self, steps: list[Step], publisher: _Publisher) -> None:
        for step in steps:
            match step:
                case Apply(_, payload):
                    self.held.append(payload)
                case Replay(first):
                    self.replay = [*publisher.kept(first), None]
                case _:
                    self.held = []


def check_one_run(held: list[bytes]) -> None:
    """Batches of one process, numbered without a hole."""
    processes = {payload.split(b":")[0] for payload in held}
    numbers = [int(payload.split(b":")[1]) for payload in held]
    assert len(processes) <= 1
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers))) if numbers else True


_ACTIONS = st.sampled_from(
    ["publish", "publish", "publish", "drop", "restart", "late", "reply", "reply", "reply", "fail", "quiet"]
)


@pytest.mark.parametrize("replayable", [True, False])
@given(actions=st.lists(_ACTIONS, max_size=60), buffer=st.integers(1, 8))
@settings(max_examples=300, deadline=None)
def test_whatever_happens_in_the_end_all_is_known_and_nothing_else(
    replayable: bool, actions: list[str], buffer: int
) -> None:
    """Losses, restarts and replays at any moment: what is held is a run of one process's batches, without
    holes, and after a quiet time the newest run of the living process."""
    publisher, follower = _Publisher(buffer), _Follower()
    machine = Sequence(replayable=replayable)
    pipe: list[tuple[int, bytes]] = []  # live batches on their way
    connections = 1  # made, and not noticed yet

    def deliver() -> None:
        """The next live batch; or, as a feed does it, all of them between a connection lost and made."""
        nonlocal connections
        if connections:
            machine.disconnected()
        for _ in range(len(pipe) if connections else min(1, len(pipe))):
            follower.take(machine.live(*pipe.pop(0)), publisher)
        for _ in range(connections):
            connections -= 1
            follower.take(machine.connected(), publisher)

    def reply() -> None:
        while pipe or connections:
            deliver()
        if follower.replay and machine.replaying:
            frame = follower.replay.pop(0)
            steps = machine.replay_ended() if frame is None else machine.replayed(*frame)
            follower.take(steps, publisher)

    def restart() -> None:
        nonlocal connections
        publisher.restart()
        connections += 1

    def publish() -> None:
        pipe.append(publisher.publish())
        deliver()

    do: dict[str, Callable[[], object]] = {
        "publish": publish,
        "late": lambda: pipe.append(publisher.publish()),
        "drop": publisher.publish,
        "restart": restart,
        "reply": reply,
        "fail": lambda: follower.take(machine.replay_failed(), publisher),
        "quiet": lambda: follower.take(machine.quiet(), publisher),
    }
    for action in actions:
        do[action]()
        if not connections:  # until it is noticed, the batches of a new process may pass for the old one's
            check_one_run(follower.held)

    while connections:
        deliver()
    pipe.append(publisher.publish())
    while pipe or connections:
        deliver()
    for _ in range(1000):
        if not machine.replaying:
            break
        reply()
    assert not machine.replaying
    assert follower.held == publisher.sent[len(publisher.sent) - len(follower.held) :]
    assert follower.held
