"""Order, gaps, replays and restarts: the state machine by tables, then against a publisher that does it all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.kv.history import AT_THE_BEGINNING, REMEMBERED, SequenceState
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


def test_a_replay_that_never_has_what_came_live_is_done_without() -> None:
    """It shows the last batch, so it is no other process's, and ends there each time, though batches go on coming."""
    machine = at(5)
    for sequence in (9, 10):
        assert machine.live(sequence, b"a%d" % sequence) == [Replay(5)]
        assert machine.replayed(5, b"a5") == []
        assert machine.replay_ended() == []
    machine.live(11, b"a11")
    machine.replayed(5, b"a5")

    assert machine.replay_ended() == [Lost("replay_failed"), Apply(11, b"a11")]
    assert machine.live(12, b"a12") == [Apply(12, b"a12")]


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


def test_a_replay_with_a_hole_is_asked_for_again() -> None:
    """From the last batch before the hole; what comes twice or too late changes nothing."""
    machine = at(5)
    machine.live(9, b"a9")
    for sequence in (5, 6):
        machine.replayed(sequence, b"a%d" % sequence)

    assert machine.replayed(8, b"a8") == [Replay(6)]
    assert "replaying from 6" in repr(machine)
    assert machine.replayed(5, b"a5") == []
    for sequence in (6, 7, 8):
        machine.replayed(sequence, b"a%d" % sequence)
    assert machine.replayed(7, b"a7") == []
    assert machine.replayed(9, b"a9") == [Apply(9, b"a9")]
    assert machine.replay_ended() == []

    assert (machine.replayed(9, b"a9"), machine.replay_ended(), machine.replay_failed()) == ([], [], [])
    assert (machine.last, machine.complete) == (9, True)


def test_a_quiet_check_that_a_burst_overtakes_loses_nothing() -> None:
    """The replay's buffer has moved on when it answers, but what it lacks came live meanwhile."""
    machine = at(3)
    machine.quiet()
    machine.live(4, b"a4")
    machine.live(5, b"a5")
    machine.live(7, b"a7")

    assert machine.replayed(6, b"a6") == [Apply(4, b"a4"), Apply(5, b"a5"), Replay(5)]
    assert machine.replayed(5, b"a5") == []
    assert [machine.replayed(n, b"a%d" % n) for n in (6, 7)] == [[Apply(6, b"a6")], [Apply(7, b"a7")]]
    assert machine.replay_ended() == []


def test_a_quiet_check_that_finds_a_lost_end_too_late_tells_of_a_loss() -> None:
    """Nothing that came live can make up for it."""
    machine = at(3)
    machine.quiet()

    assert machine.replayed(6, b"a6") == [Lost("unreplayable"), Apply(6, b"a6"), Replay(6)]


def given_up(waiting: int) -> Sequence:
    """A machine whose first replays failed while a batch came live; its history begins with that one."""
    machine = Sequence(replayable=True)
    machine.connected()
    machine.live(waiting, b"a%d" % waiting)
    for _ in range(3):
        machine.replay_failed()
    assert (machine.last, machine.recoverable) == (waiting, True)
    return machine


def test_what_failed_replays_missed_is_read_once_they_work() -> None:
    """A look at what a replay begins with stops nothing; if that is more than is known, all is read again."""
    machine = given_up(7)

    assert machine.recover() == [Replay(0)]
    assert machine.live(8, b"a8") == [Apply(8, b"a8")]
    assert machine.recover() == []
    assert machine.replayed(6, b"a6") == [Lost("read_again"), Replay(0)]
    assert machine.replayed(6, b"a6") == [Apply(6, b"a6")]
    assert machine.live(9, b"a9") == []
    assert [*machine.replayed(7, b"a7"), *machine.replayed(8, b"a8")] == [Apply(7, b"a7"), Apply(8, b"a8")]
    assert machine.replay_ended() == [Apply(9, b"a9")]
    assert not machine.recoverable


def test_a_replay_that_begins_no_earlier_is_looked_at_once() -> None:
    """Its buffer only moves on."""
    machine = given_up(7)
    machine.recover()

    assert machine.replayed(7, b"a7") == []
    assert not machine.awaits_replay
    assert not machine.recoverable


def test_a_look_that_fails_may_be_had_again() -> None:
    """Nothing that is known is given up for it, nor while the connection is gone; whatever else asks comes first."""
    machine = given_up(7)
    machine.recover()
    assert machine.replay_failed() == []
    assert machine.recoverable

    machine.recover()
    assert machine.live(9, b"a9") == [Replay(7)]
    assert (machine.awaits_replay, machine.recoverable) == (True, False)
    machine.replayed(7, b"a7")
    machine.replayed(8, b"a8")
    assert machine.replay_ended() == []

    machine.recover()
    machine.disconnected()
    assert machine.replayed(0, b"b0") == []


def test_a_look_that_finds_nothing_at_all_asks_properly() -> None:
    """An engine that replays nothing is another process."""
    machine = given_up(7)
    machine.recover()

    assert machine.replay_ended() == [Replay(7)]
    assert machine.replay_ended() == [Restarted(), Replay(0)]


@pytest.mark.parametrize("why", ["complete", "too late", "unreadable", "no replay", "nothing"])
def test_there_is_nothing_to_look_for(why: str) -> None:
    """All is known; the replay has told where it begins; what was read could not be; there is no port, or nothing."""
    machine = Sequence(replayable=why != "no replay")
    machine.connected()
    if why in ("complete", "unreadable"):
        machine.replayed(0, b"a0")
    elif why != "nothing":
        machine.live(7, b"a7")
        machine.replayed(7, b"a7")
    machine.replay_ended()
    if why == "unreadable":
        machine.unreadable()

    assert not machine.recoverable
    assert machine.recover() == []


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


def test_what_began_with_the_first_batch_is_complete() -> None:
    """By replay or live; and so is the history of a process that has published nothing."""
    replayed, live, nothing = (Sequence(replayable=replayable) for replayable in (True, False, True))
    replayed.connected()
    replayed.replayed(0, b"a0")
    live.connected()
    live.live(0, b"a0")
    nothing.connected()
    before = nothing.complete
    nothing.replay_ended()

    assert (replayed.complete, live.complete, before, nothing.complete) == (True, True, False, True)


def test_what_began_later_is_not_complete() -> None:
    """A replay that no longer has the first batch, or a first live batch that is not the first."""
    replayed, live, waiting = (Sequence(replayable=replayable) for replayable in (True, False, True))
    replayed.connected()
    replayed.replayed(3, b"a3")
    replayed.replay_ended()
    live.connected()
    live.live(3, b"a3")
    waiting.connected()
    waiting.live(3, b"a3")
    waiting.replay_ended()

    assert (replayed.complete, live.complete, waiting.complete) == (False, False, False)


@pytest.mark.parametrize("way", ["unreplayable", "unreadable", "replay_failed"])
def test_a_loss_ends_completeness_until_a_new_process_begins(way: str) -> None:
    """Nothing that comes later of the same process brings back what was lost."""
    machine = at(5)
    match way:
        case "unreplayable":
            machine.live(9, b"a9")
            machine.replayed(8, b"a8")
            machine.replayed(8, b"a8")
            machine.replay_ended()
        case "unreadable":
            machine.unreadable()
        case _:
            machine.live(9, b"a9")
            for _ in range(3):
                machine.replay_failed()
    lost = machine.complete
    machine.restart_hinted()
    assert machine.replayed(machine.last, b"other") == [Restarted(), Replay(0)]
    restarted = machine.complete
    machine.replayed(0, b"b0")

    assert (at(5).complete, lost, restarted, machine.complete) == (True, False, False, True)


def test_without_replay_a_gap_or_a_reconnection_ends_completeness() -> None:
    """Until numbers begin at 0 again."""
    gap, reconnected = at(5, replayable=False), at(5, replayable=False)
    reconnected.connected()
    told = [reconnected.complete]
    reconnected.connected()
    told.append(reconnected.complete)
    for sequence in (8, 2, 0):
        gap.live(sequence, b"x")
        told.append(gap.complete)

    assert told == [True, False, False, False, True]


@pytest.mark.parametrize("complete", [True, False])
def test_a_state_is_gone_on_from_when_its_last_batch_is_there(complete: bool) -> None:
    """Live batches wait until then; completeness is as it was handed on."""
    state = at(5).export()._replace(since=0 if complete else 3)
    machine = Sequence(replayable=True, state=state)

    assert (machine.last, machine.complete) == (5, complete)
    assert machine.live(7, b"a7") == []
    assert machine.connected() == [Replay(5)]
    assert machine.doubtful
    assert machine.replayed(5, b"a5") == []
    assert machine.replayed(6, b"a6") == [Apply(6, b"a6")]
    assert machine.replayed(7, b"a7") == [Apply(7, b"a7")]
    assert machine.replay_ended() == []
    assert machine.live(3, b"a3") == []
    assert (machine.duplicates, machine.complete) == (1, complete)


def test_a_state_older_than_the_buffer_is_lost() -> None:
    """The replay begins later than the state ends: nothing of it is believed."""
    machine = Sequence(replayable=True, state=at(5).export())
    machine.connected()

    assert machine.replayed(8, b"a8") == [Lost("unreplayable"), Apply(8, b"a8"), Replay(8)]
    assert not machine.complete


@pytest.mark.parametrize("replay", [[(5, b"b5")], [(None, b"")]])
def test_a_state_of_another_process_is_found_out(replay: list[tuple[int | None, bytes]]) -> None:
    """Other bytes under the last number, or nothing there yet."""
    machine = Sequence(replayable=True, state=at(5).export())
    machine.connected()
    for sequence, payload in replay:
        steps = machine.replay_ended() if sequence is None else machine.replayed(sequence, payload)

    assert steps == [Restarted(), Replay(0)]
    assert not machine.complete


def test_a_state_that_nothing_can_verify_is_lost() -> None:
    """Replays that fail, or none to be had: not a batch is applied on top of it, nor is it believed."""
    failing = Sequence(replayable=True, state=at(5).export())
    failing.connected()
    steps = [failing.replay_failed() for _ in range(3)]
    assert steps == [[Replay(5)], [Replay(5)], [Lost("replay_failed")]]

    without = Sequence(replayable=False, state=at(5).export())
    assert without.connected() == [Lost("reconnected")]
    assert (failing.complete, without.complete) == (False, False)


def test_a_state_of_nothing_is_a_beginning() -> None:
    """Who had published nothing then may have done so since."""
    state = at(-1).export()
    assert state == SequenceState(since=0)

    machine = Sequence(replayable=True, state=state)

    assert not machine.complete
    assert machine.connected() == [Replay(0)]
    assert machine.replayed(4, b"a4") == [Apply(4, b"a4")]
    assert not machine.complete


def test_a_state_is_bounded() -> None:
    """However long the history, it ends with the newest digests."""
    state = at(REMEMBERED + 10).export()

    assert len(state.recent) == REMEMBERED
    assert state.recent[-1] == at(REMEMBERED + 10).export().recent[-1]


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


def check_complete(machine: Sequence, held: list[bytes]) -> None:
    """Whoever holds the first batch, and no hole, holds all."""
    if held:
        assert machine.complete == held[0].endswith(b":0")


_ACTIONS = st.sampled_from(
    [*["publish", "reply"] * 3, "drop", "restart", "late", "fail", "give up", "quiet", "recover", "export", "resume"]
)


@pytest.mark.parametrize("replayable", [True, False])
@given(actions=st.lists(_ACTIONS, max_size=60), buffer=st.integers(1, 8))
@settings(max_examples=300)
def test_whatever_happens_in_the_end_all_is_known_and_nothing_else(
    replayable: bool, actions: list[str], buffer: int
) -> None:
    """Losses, restarts, replays and states handed on at any moment: what is held is a run of one process's batches,
    without holes, and after a quiet time the newest run of the living process. It is complete if it begins with the
    first. Where replays failed, it is in the end all that a replay can give."""
    publisher, follower = _Publisher(buffer), _Follower()
    machine = Sequence(replayable=replayable)
    pipe: list[tuple[int, bytes]] = []  # live batches on their way
    connections = 1  # made, and not noticed yet
    exported: tuple[SequenceState, list[bytes]] = (AT_THE_BEGINNING, [])

    def export() -> None:
        nonlocal exported
        exported = machine.export(), list(follower.held)

    def resume() -> None:
        """Somebody else goes on from what was exported."""
        nonlocal machine, connections
        machine = Sequence(replayable=replayable, state=exported[0])
        follower.held, follower.replay = list(exported[1]), []
        pipe.clear()
        connections = 1

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
        if follower.replay and machine.awaits_replay:
            frame = follower.replay.pop(0)
            steps = machine.replay_ended() if frame is None else machine.replayed(*frame)
            follower.take(steps, publisher)

    def give_up() -> None:
        """Nobody answers for long, and meanwhile something is published."""
        for _ in range(3):
            publish()
            follower.take(machine.replay_failed(), publisher)

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
        "give up": give_up,
        "quiet": lambda: follower.take(machine.quiet(), publisher),
        "recover": lambda: follower.take(machine.recover(), publisher),
        "export": export,
        "resume": resume,
    }
    for action in actions:
        do[action]()
        if not connections:  # until it is noticed, the batches of a new process may pass for the old one's
            check_one_run(follower.held)
            check_complete(machine, follower.held)

    while connections:
        deliver()
    pipe.append(publisher.publish())
    while pipe or connections:
        deliver()
    for _ in range(1000):
        if machine.awaits_replay:
            reply()
        elif machine.recoverable:
            follower.take(machine.recover(), publisher)
    assert not machine.awaits_replay
    assert follower.held == publisher.sent[len(publisher.sent) - len(follower.held) :]
    assert follower.held
    assert len(follower.held) >= (min(buffer, len(publisher.sent)) if replayable else 1)
    check_complete(machine, follower.held)
