"""Supervisor: the process that was started with several workers. It builds what is here, starts and stops it.

It owns the ports, and serves the side ones; requests are the workers' alone.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from pathlib import Path
from time import monotonic

from gateway.asgi_server import listen_sockets, port_of
from gateway.observe.announcement import announce
from gateway.observe.side_server import SideServer
from gateway.settings import Settings
from gateway.supervisor import keep_running
from gateway.workers.crew import Crew
from gateway.workers.crew_admin import CrewAdmin, crew_admin_app
from gateway.workers.crew_metrics import CrewMetrics, WorkerCounters
from gateway.workers.limits import Limits
from gateway.workers.worker_pages import WorkerPages
from gateway.workers.worker_process import Birthplace, WorkerProcess

_log = logging.getLogger(__name__)

WORKER_COMMAND = (sys.executable, "-m", "gateway", "serve")
_LAST_WORDS_S = 10.0


class Supervisor:
    """Make it inside a running event loop; :meth:`run` it once."""

    def __init__(
        self,
        settings: Settings,
        environ: Mapping[str, str],
        *,
        command: Sequence[str] = WORKER_COMMAND,
        limits: Limits | None = None,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        """Binds everything. Raises ``OSError`` that says what is wrong.

        ``environ``: the workers'; ``command`` starts one, given ``--worker`` and what it inherits.
        """
        self._settings = settings
        self._sockets = listen_sockets(settings.listen, settings.metrics_listen, settings.admin_listen)
        self._api = settings.listen._replace(port=port_of(self._sockets.public))
        self._folder = tempfile.TemporaryDirectory(prefix="prefixway-")
        token = secrets.token_urlsafe()  # workers' admin pages are the supervisor's alone
        given = _with_admin_token(environ, token)
        self._birthplace = Birthplace(command, given, self._sockets.public, Path(self._folder.name))
        self._names = map(str, count(1))
        pages = WorkerPages()
        counters = WorkerCounters(pages)
        self.crew = Crew(settings.workers, self._start, limits=limits or limits_of(settings), listener=counters)
        self.metrics = SideServer(CrewMetrics(self.crew, counters), self._sockets.metrics)
        admin = CrewAdmin(
            self.crew,
            pages,
            token,
            settings=settings.effective(),
            unknown_settings=settings.unknown,
            clock=clock,
        )
        self.admin = SideServer(crew_admin_app(admin, settings.admin_token), self._sockets.admin)

    @property
    def url(self) -> str:
        """Where the OpenAI API is, as a URL."""
        return f"{'https' if self._settings.tls_cert else 'http'}://{self._api}"

    def stop(self, *, linger: bool = True) -> None:
        """As :meth:`Crew.stop`."""
        _log.info("all workers leave")
        self._sockets.public.close()  # they still have it, for as long as they serve
        self.crew.stop(linger=linger)

    def renew(self) -> None:
        """Replace all workers, one after the other. No request is lost."""
        self.crew.renew()

    async def run(self) -> int:
        """Serve until :meth:`stop`. The exit status for the process."""
        settings = self._settings
        metrics = settings.metrics_listen._replace(port=self.metrics.port)
        admin = settings.admin_listen._replace(port=self.admin.port)
        announce(settings, api=self._api, metrics=metrics, admin=admin)
        try:
            async with asyncio.TaskGroup() as group:
                side = [group.create_task(keep_running(port.run, "side port")) for port in (self.metrics, self.admin)]
                status = await self.crew.run()
                for task in side:
                    task.cancel()
            return status
        finally:
            for listening in self._sockets:
                listening.close()
            self._folder.cleanup()

    async def _start(self, slot: int) -> WorkerProcess:
        return await WorkerProcess.start(slot, next(self._names), self._birthplace)


def _with_admin_token(environ: Mapping[str, str], token: str) -> dict[str, str]:
    """A token of their own: that of the setting may be in a file which changes while the supervisor lives."""
    rest = {name: value for name, value in environ.items() if name != "PREFIXWAY_ADMIN_TOKEN_FILE"}
    return rest | {"PREFIXWAY_ADMIN_TOKEN": token}


def limits_of(settings: Settings) -> Limits:
    """A worker serves on for a moment, or waits up to the drain time for idle clients to go; then for its answers."""
    return Limits(leave_s=max(settings.linger_s, settings.drain_s) + settings.drain_s + _LAST_WORDS_S)
