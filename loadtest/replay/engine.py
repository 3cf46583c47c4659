"""Engine: one simulated replica: its queue, its steps and its tiers of KV memory.

Continuous batching as vLLM does it: each step gives one token to every request that decodes and spends the rest of its
budget on prefills, first come first served. Seconds of a step (u tokens of prefill from context length s on; n
sequences; the formula of :mod:`loadtest.replica.scheduler`):

    step + sequence * n + sum of u/P * (1 + (s + u/2)/K) + context * sum of decode contexts + loads from L1 and L2

Steps in which all decode are taken together up to the next change. Loads are synchronous. Not modelled: preemption,
answers that become part of a later prompt unless the trace says so, speculative decoding.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from math import ceil, sqrt

from gateway.kv.tiers import Tier
from loadtest.replay.agenda import Agenda
from loadtest.replay.engine_cache import EngineCache, Hold
from loadtest.replay.lower_tier import LowerTier, usable
from loadtest.replay.scenario import EngineOptions
from loadtest.replay.trace import Turn

#: Told of what a replica holds from now on, and no more: its number, the tier, and both lists of blocks.
Publish = Callable[[int, Tier, Sequence[int], Sequence[int]], None]


@dataclass(slots=True, eq=False)
class Job:
    """A request at an engine. ``first_token`` and ``finished`` are called when their moment has come."""

    turn: Turn
    first_token: Callable[[], None]
    finished: Callable[[], None]
    l0_tokens: int = 0
    l1_tokens: int = 0
    l2_tokens: int = 0
    computed: int = 0
    hold: Hold | None = field(default=None, repr=False)

    @property
    def cached_tokens(self) -> int:
        return self.l0_tokens + self.l1_tokens + self.l2_tokens


class Engine:
    """``speed``: relative to the options' speeds. ``storage`` is shared by all."""

    def __init__(
        self,
        number: int,
        options: EngineOptions,
        *,
        block_tokens: int,
        speed: float,
        agenda: Agenda,
        storage: LowerTier,
        publish: Publish,
    ) -> None:
        self.number = number
        self._options = options
        self._speeds = options.speeds
        self._block_tokens = block_tokens
        self._speed = speed
        self._agenda = agenda
        self._publish = publish
        self._gpu = EngineCache(options.l0_blocks)
        self._host = LowerTier(options.l1_blocks)
        self._storage = storage
        self._waiting: deque[Job] = deque()
        self._prefilling: list[Job] = []
        self._decoding: list[tuple[int, int, Job]] = []  # by the step in which each ends
        self._steps = 0  # steps in which decoding requests got a token
        self._joined = 0
        self._contexts = 0  # tokens, of those that decode
        self._began_s = 0.0
        self._load_s = 0.0  # of this step
        self._run_steps = 0  # steps that are taken together; 0: nothing runs
        self._run_number = 0
        self.queued_tokens = 0  # uncached prompt tokens that wait or are being computed; of waiting ones all

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    @property
    def running(self) -> int:
        return len(self._prefilling) + len(self._decoding)

    @property
    def running_tokens(self) -> int:
        """Tokens of context of what runs."""
        return self._contexts + sum(job.computed for job in self._prefilling)

    @property
    def waiting_tokens(self) -> int:
        return sum(job.turn.prompt_tokens for job in self._waiting)

    @property
    def kv_usage(self) -> float:
        return self._gpu.usage

    def alone_s(self, job: Job) -> float:
        """Seconds of its prefill, with what was cached, had it been alone."""
        uncached = job.turn.prompt_tokens - job.cached_tokens
        compute_s = self._speeds.prefill_s(job.cached_tokens, uncached)
        steps = max(1, ceil(uncached / self._speeds.chunk_tokens))
        return (compute_s + steps * self._speeds.step_s) / self._speed + self._loading_s(job)

    def submit(self, job: Job) -> None:
        self._waiting.append(job)
        self.queued_tokens += job.turn.prompt_tokens
        if not self._run_steps:
            self._run_steps = 1  # whoever comes in the same moment is there when it begins
            self._agenda.at(self._agenda.now, self._go_on)
        elif self._run_steps > 1:
            self._cut_run()

    # Steps

    def _begin_step(self) -> None:
        budget = self._speeds.chunk_tokens - len(self._decoding)
        shares: list[tuple[Job, int]] = []
        self._load_s = 0.0
        for job in self._prefilling:
            if budget > 0:
                budget -= self._take_share(job, budget, shares)
        while budget > 0 and self._waiting and self.running < self._speeds.max_running:
            if not self._admit(self._waiting[0]):
                break
            job = self._waiting.popleft()
            self._prefilling.append(job)
            budget -= self._take_share(job, budget, shares)
        self._began_s = self._agenda.now
        if shares:
            self._start(1, lambda: self._end_step(shares), self._prefill_step_s(shares))
        elif self._decoding:
            steps = self._decoding[0][0] - self._steps
            self._start(steps, lambda: self._end_run(steps), self._decode_s(steps))

    def _start(self, steps: int, end: Callable[[], None], seconds: float) -> None:
        self._run_steps = steps
        self._run_number += 1
        number = self._run_number

        def end_unless_cut() -> None:
            if number == self._run_number:
                end()

        self._agenda.at(self._began_s + seconds, end_unless_cut)

    def _take_share(self, job: Job, budget: int, shares: list[tuple[Job, int]]) -> int:
        tokens = min(budget, job.turn.prompt_tokens - job.computed)
        shares.append((job, tokens))
        assert job.hold is not None  # noqa: S101
        self._gpu.compute(job.hold, (job.computed + tokens) // self._block_tokens)
        return tokens

    def _admit(self, job: Job) -> bool:
        turn, size = job.turn, self._block_tokens
        most = min(len(turn.blocks), (turn.prompt_tokens - 1) // size)
        hold = self._gpu.admit(turn.blocks, most, ceil((turn.prompt_tokens + turn.output_tokens) / size))
        if hold is None:
            return False
        job.hold = hold
        job.l0_tokens = hold.found * size
        if self._host.capacity or self._storage.capacity:
            self._look_lower(job, most)
        job.computed = job.cached_tokens
        self._gpu.compute(hold, job.computed // size)
        self.queued_tokens -= job.cached_tokens
        return True

    def _look_lower(self, job: Job, most: int) -> None:
        """Whatever L1 and L2 hold beyond the GPU's part is loaded."""
        blocks, size = job.turn.blocks, self._block_tokens
        in_host = usable((self._host,), blocks, most) * size
        in_any = usable((self._host, self._storage), blocks, most) * size
        job.l1_tokens = max(0, in_host - job.l0_tokens)
        job.l2_tokens = max(0, in_any - max(in_host, job.l0_tokens))
        self._load_s += self._loading_s(job)
        self._host.keep(blocks[: in_any // size])

    def _loading_s(self, job: Job) -> float:
        options = self._options
        from_storage_s = options.l2_fixed_s + job.l2_tokens / options.l2_tokens_s if job.l2_tokens else 0.0
        return job.l1_tokens / options.l1_tokens_s + from_storage_s

    def _prefill_step_s(self, shares: Sequence[tuple[Job, int]]) -> float:
        speeds = self._speeds
        seconds = speeds.step_s + speeds.sequence_s * (len(self._decoding) + len(shares))
        seconds += speeds.context_token_s * self._contexts
        for job, tokens in shares:
            seconds += speeds.prefill_s(job.computed, tokens)
        return seconds / self._speed + self._load_s

    def _decode_s(self, steps: int) -> float:
        """Of so many steps in which all decode; the contexts grow by a token each."""
        speeds, sequences = self._speeds, len(self._decoding)
        first_s = speeds.step_s + speeds.sequence_s * sequences + speeds.context_token_s * self._contexts
        growth_s = speeds.context_token_s * sequences
        return (steps * first_s + growth_s * steps * (steps - 1) / 2) / self._speed

    def _cut_run(self) -> None:
        """Somebody came: end the run of decode steps with the one that is under way."""
        elapsed_s = self._agenda.now - self._began_s
        half = self._speeds.context_token_s * len(self._decoding) / 2 / self._speed
        first = self._decode_s(1) - half
        root = sqrt(first**2 + 4 * half * elapsed_s)
        steps = 2 * elapsed_s / (root + first)  # of first * n + half * n**2 = elapsed_s
        done = max(1, ceil(steps - 1e-9))
        if done < self._run_steps:
            self._start(done, lambda: self._end_run(done), self._decode_s(done))

    def _end_run(self, steps: int) -> None:
        self._decoded(steps)
        self._go_on()

    def _end_step(self, shares: Sequence[tuple[Job, int]]) -> None:
        self._decoded(1)
        for job, tokens in shares:
            job.computed += tokens
            self.queued_tokens -= tokens
            if job.computed == job.turn.prompt_tokens:
                self._prefilling.remove(job)
                self._keep_lower(job)
                self._begin_decoding(job)
        self._announce()
        self._go_on()

    def _go_on(self) -> None:
        self._run_steps = 0
        self._begin_step()

    def _decoded(self, steps: int) -> None:
        decoding = self._decoding
        self._steps += steps
        self._contexts += steps * len(decoding)
        while decoding and decoding[0][0] <= self._steps:
            _, _, job = heappop(decoding)
            self._contexts -= job.turn.prompt_tokens + job.turn.output_tokens - 1
            self._end(job)

    def _begin_decoding(self, job: Job) -> None:
        job.first_token()
        if job.turn.output_tokens == 1:
            self._end(job)
            return
        self._joined += 1
        self._contexts += job.turn.prompt_tokens
        heappush(self._decoding, (self._steps + job.turn.output_tokens - 1, self._joined, job))

    def _end(self, job: Job) -> None:
        assert job.hold is not None  # noqa: S101
        self._gpu.release(job.hold)
        job.finished()

    # What it tells

    def _keep_lower(self, job: Job) -> None:
        full = job.turn.blocks[: job.turn.prompt_tokens // self._block_tokens]
        self._host.keep(full)
        self._storage.keep(full)

    def _announce(self) -> None:
        for tier, memory in ((Tier.L0, self._gpu), (Tier.L1, self._host)):
            if memory.stored or memory.removed:
                self._publish(self.number, tier, memory.stored, memory.removed)
                memory.stored, memory.removed = [], []
