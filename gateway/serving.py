"""``prefixway serve``: one gateway; or a supervisor with several workers; or, started by that, one of the workers."""

from __future__ import annotations

import asyncio
import gc
import itertools
import logging
import os
import resource
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial

import uvloop

from gateway.app import Gateway
from gateway.index_service import IndexService
from gateway.observe.line_writer import LineWriter
from gateway.observe.logs import configure_logging
from gateway.settings import Settings
from gateway.workers.channel import Channel, Order
from gateway.workers.inheritance import Inheritance
from gateway.workers.supervisor import Supervisor
from gateway.workers.worker import Worker, clear_away

_log = logging.getLogger(__name__)

_STOPPING = (signal.SIGTERM, signal.SIGINT)


def serve(environ: Mapping[str, str], *, workers: int | None = None, worker: str | None = None) -> int:
    """Serve until told to stop; the exit status. Raises ``SettingsError`` or ``OSError`` that says what is wrong.

    ``workers`` goes before the setting; ``worker``: what this process inherits as one of several.
    """
    given = environ if workers is None else {**environ, "PREFIXWAY_WORKERS": str(workers)}
    settings = Settings.from_env(given)
    if worker is not None:
        return _work(settings, Inheritance.parse(worker))
    return _supervise(settings, given) if settings.workers > 1 else _run_alone(settings, Gateway)


def index(environ: Mapping[str, str]) -> int:
    """``prefixway index``: the indexer alone, until told to stop; the exit status. Raises as :func:`serve` does."""
    return _run_alone(Settings.from_env(environ), IndexService)


def _run_alone(settings: Settings, service: Callable[[Settings], Gateway | IndexService]) -> int:
    async def run() -> int:
        made = service(settings)
        _allow_many_sockets()
        spare_the_collector()
        asked = _first_and_then(lambda number: made.stop(linger=number != signal.SIGINT), lambda _: made.hurry())
        for number in _STOPPING:
            _on_signals(partial(asked, number), number)
        _on_signals(_ignore_hangup, signal.SIGHUP)
        await made.run()
        return 0

    with _logging(settings):
        return uvloop.run(run())


def _supervise(settings: Settings, environ: Mapping[str, str]) -> int:
    async def run() -> int:
        supervisor = Supervisor(settings, environ)
        for number in _STOPPING:
            _on_signals(partial(supervisor.stop, linger=number != signal.SIGINT), number)
        _on_signals(supervisor.renew, signal.SIGHUP)
        return await supervisor.run()

    with _logging(settings, shared=True):
        return uvloop.run(run())


def _work(settings: Settings, inheritance: Inheritance) -> int:
    async def run() -> int:
        sockets = inheritance.listen_sockets()
        side = [sockets.metrics.getsockname(), sockets.admin.getsockname()]
        gateway = Gateway(settings, sockets=sockets)
        _allow_many_sockets()
        spare_the_collector()
        worker = Worker(gateway, await Channel.open(inheritance.channel_end(), Order))
        _on_signals(worker.leave, *_STOPPING)
        await worker.run()
        if worker.is_orphan:
            clear_away(side)
        return 0

    with _logging(settings, shared=True, always={"worker": inheritance.slot, "pid": os.getpid()}):
        return uvloop.run(run())


def _allow_many_sockets() -> None:
    """Each request under way takes two descriptors, and the usual limit of 1,024 is the shell's, not the system's."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with suppress(ValueError, OSError):  # some systems call a limit infinite, and have one
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _first_and_then(
    first: Callable[[signal.Signals], None], then: Callable[[signal.Signals], None]
) -> Callable[[signal.Signals], None]:
    """Who asks twice to stop does not want to wait."""
    steps = itertools.chain([first], itertools.repeat(then))

    def step(number: signal.Signals) -> None:
        next(steps)(number)

    return step


def _ignore_hangup() -> None:
    _log.info("SIGHUP replaces workers, and there is one process only: nothing was done")


def _on_signals(act: Callable[[], None], *numbers: signal.Signals) -> None:
    for number in numbers:
        asyncio.get_running_loop().add_signal_handler(number, act)


@contextmanager
def _logging(settings: Settings, *, shared: bool = False, always: Mapping[str, object] | None = None) -> Iterator[None]:
    """Logs go to standard error inside the block. ``shared``: other processes' too."""
    log = LineWriter(sys.stderr, shared=shared)
    configure_logging(settings.log_level, log.write, always)
    try:
        yield
    finally:
        log.close()


def spare_the_collector() -> None:
    """What is built at the start lives for ever, and requests leave few cycles: look for them seldom."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
