"""DnsNames: the servers behind one name in DNS, asked of the name servers themselves.

With a port: one server for each address of the name, as a headless Service of Kubernetes has them. Without: one for
each SRV record (RFC 2782), called by its target's name, which every new connection to it resolves again.

Asked are the name servers of resolv.conf, with its search domains; not /etc/hosts. No answer is kept: how old one can
be is up to the name servers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from ipaddress import ip_address
from typing import NamedTuple

from dns.asyncresolver import Resolver
from dns.exception import DNSException
from dns.flags import Flag
from dns.name import root
from dns.rdatatype import RdataType
from dns.rdtypes.IN.A import A
from dns.rdtypes.IN.AAAA import AAAA
from dns.rdtypes.IN.SRV import SRV
from dns.resolver import NXDOMAIN, Answer, LifetimeTimeout, NoNameservers

from gateway.fleet.discovery.polling import Found, LookupFailed
from gateway.fleet.server_spec import ServerSpec

_PATIENCE_S = 5.0  # for the answer to one question, whatever the name servers
_MOST_QUESTIONS = 2
_BELIEVED_AFTER = 3


class _Listing(NamedTuple):
    """What was said. ``records``: of which type; ``None``: there is no server, ``absence`` says how that was told."""

    found: Found
    records: RdataType | None
    absence: str = ""


class DnsNames:
    """The servers of ``name``; ``port`` ``None``: by its SRV records. All of them speak plain HTTP.

    A name that has nothing, after it had something, is believed when it was said three times in a row: a name server
    that restarts says so too. So is one that has AAAA records only, after it had A records: to a fleet that is in both
    every server is listed twice, and its ids must not change for a moment.

    Of SRV records the weight is ignored: the strategies weigh. Those of any but the first priority are held back.
    """

    def __init__(
        self,
        name: str,
        port: int | None,
        *,
        resolver: Callable[[], Resolver] = Resolver,
        patience_s: float = _PATIENCE_S,
    ) -> None:
        """``resolver`` is made anew for each question: resolv.conf may change. ``patience_s``: for each answer."""
        self._name = name
        self._port = port
        self._resolver = resolver
        self._patience_s = patience_s
        self._records: RdataType | None = None  # of the last answer that was believed
        self._doubts = 0

    async def look_up(self) -> Found:
        """All that the name has now. Raises ``LookupFailed``."""
        try:
            # The resolver measures by the wall clock, which somebody may set meanwhile.
            async with asyncio.timeout(self._patience_s * (_MOST_QUESTIONS + 1)):
                listing = await self._ask()
        except TimeoutError:
            raise LookupFailed(f"DNS, {self._name}: no answer in time") from None
        except (DNSException, OSError) as error:
            raise LookupFailed(f"DNS, {self._name}: {_reason(error)}") from error
        return self._believed(listing)

    async def close(self) -> None:
        """Nothing is kept open."""

    async def _ask(self) -> _Listing:
        if self._port is None:
            return await self._ask_services()
        with suppress(ValueError):
            return _Listing(_servers_at([str(ip_address(self._name))], self._port), RdataType.A)
        return await self._ask_addresses(self._port)

    async def _ask_services(self) -> _Listing:
        try:
            answer = await self._records_of(RdataType.SRV)
        except NXDOMAIN:
            return _no_such_name()
        found = _servers_named([record for record in answer if isinstance(record, SRV)])
        if not found.specs:
            return _Listing(found, None, "no SRV record names a server")
        return _Listing(found, RdataType.SRV)

    async def _ask_addresses(self, port: int) -> _Listing:
        """A server in both families is one server: of a name that has A records the AAAA records are not asked for."""
        for type_ in (RdataType.A, RdataType.AAAA):
            try:
                answer = await self._records_of(type_)
            except NXDOMAIN:
                return _no_such_name()
            if addresses := [record.address for record in answer if isinstance(record, A | AAAA)]:
                return _Listing(_servers_at(addresses, port), type_)
        return _Listing(Found(()), None, "the name has no A and no AAAA records")

    async def _records_of(self, type_: RdataType) -> Answer:
        """Those of the name, if it has any. An answer that a datagram cuts is asked for again over TCP."""
        answer = await self._resolver().resolve(
            self._name, type_, lifetime=self._patience_s, search=True, raise_on_no_answer=False
        )
        if answer.response.flags & Flag.TC:
            raise LookupFailed(f"DNS, {self._name}: the answer is cut over TCP too")
        return answer

    def _believed(self, listing: _Listing) -> Found:
        before = self._records
        if before is not None and listing.records not in (before, RdataType.A):
            self._doubts += 1
            if self._doubts < _BELIEVED_AFTER:
                said = listing.absence or f"the name has no {before.name} records any more"
                raise LookupFailed(f"DNS, {self._name}: {said}; believed when said {_BELIEVED_AFTER} times in a row")
        self._records, self._doubts = listing.records, 0
        return listing.found


def _servers_named(records: Iterable[SRV]) -> Found:
    specs: dict[str, ServerSpec] = {}
    backups: set[str] = set()
    faults: list[str] = []
    first: int | None = None  # priority
    for record in sorted(records, key=lambda record: record.priority):
        if record.target == root:  # decidedly no server (RFC 2782)
            continue
        host = record.target.to_text(omit_final_dot=True)
        try:
            spec = ServerSpec.build(f"http://{host}:{record.port}", "", {})
        except ValueError as error:
            faults.append(f"an SRV record names no server: {error}")
            continue
        first = record.priority if first is None else first
        if spec.id not in specs and record.priority > first:
            backups.add(spec.id)
        specs.setdefault(spec.id, spec)
    return Found(_sorted(specs.values()), frozenset(backups), tuple(sorted(faults)))


def _servers_at(addresses: Iterable[str], port: int) -> Found:
    urls = {f"http://[{address}]:{port}" if ":" in address else f"http://{address}:{port}" for address in addresses}
    return Found(_sorted(ServerSpec.build(url, "", {}) for url in urls))


def _sorted(specs: Iterable[ServerSpec]) -> tuple[ServerSpec, ...]:
    """Name servers rotate their answers: the same servers are the same list."""
    return tuple(sorted(specs, key=lambda spec: spec.id))


def _no_such_name() -> _Listing:
    return _Listing(Found(()), None, "there is no such name")


def _reason(error: Exception) -> str:
    """The same words for the same reason, however long it took."""
    if isinstance(error, LifetimeTimeout | NoNameservers):
        return ", ".join(sorted(set(_answers(error)))) or "no name server answers"
    return str(error) or type(error).__name__


def _answers(error: LifetimeTimeout | NoNameservers) -> Iterator[str]:
    """What each name server said, but that it says more over TCP."""
    for server, _, _, answer, _ in error.kwargs["errors"]:
        said = answer if isinstance(answer, str) else type(answer).__name__
        if said != "Truncated":
            where = server.removeprefix("Do53:").replace("@", ":")
            yield f"{where} {'does not answer' if said == 'Timeout' else f'says {said}'}"
