"""A name server on real UDP and TCP sockets, whose records and manners a test changes at will."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Sequence
from contextlib import suppress
from enum import Enum, auto
from typing import NamedTuple, Self

import dns.flags
import dns.message
import dns.name
import dns.rcode
import dns.rdatatype
import dns.rrset
from dns.asyncresolver import Resolver

from tests.fakes.waiting import eventually

_MOST_UDP_BYTES = 512  # RFC 1035, 4.2.1
_TTL_S = 5
_LONGEST_CHAIN = 16


class Manner(Enum):
    """How questions are answered."""

    TRUE = auto()
    SERVFAIL = auto()
    REFUSED = auto()
    SILENT = auto()
    GARBAGE = auto()  # bytes that are no message
    FORGED = auto()  # a good answer to another question's id, then the true one
    TRUNCATED = auto()  # over TCP too
    BROKEN = auto()  # the right id, and then garbage; over TCP


class Question(NamedTuple):
    name: str
    type: str
    tcp: bool


class NameServer:
    """``async with NameServer() as names``. ``asked`` lists the questions that came. Port 0: any free one."""

    def __init__(self, host: str = "127.0.0.1", port: int = 0) -> None:
        self.manner = Manner.TRUE
        self.garbage = b"\xff" * 40
        self.asked: list[Question] = []
        self.port = port
        self._host = host
        self._records: dict[dns.name.Name, dict[dns.rdatatype.RdataType, list[str]]] = {}
        self._writers: set[asyncio.StreamWriter] = set()

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        wanted = self.port
        while True:
            self._udp, _ = await loop.create_datagram_endpoint(
                lambda: _Datagrams(self._datagram), local_addr=(self._host, wanted)
            )
            self.port = self._udp.get_extra_info("sockname")[1]
            try:
                self._tcp = await asyncio.start_server(self._serve, self._host, self.port)
            except OSError:  # somebody else has it for TCP
                self._udp.close()
                if wanted:
                    raise
            else:
                return self

    async def __aexit__(self, *_: object) -> None:
        self._udp.close()
        self._tcp.close()
        for writer in list(self._writers):
            writer.transport.abort()
        await eventually(lambda: not self._writers)
        await self._tcp.wait_closed()

    def put(self, name: str, type_: str, *records: str) -> None:
        """Exactly these records, in the words of a zone file; none of them: the name is there, without any."""
        of_name = self._records.setdefault(dns.name.from_text(name), {})
        of_name[dns.rdatatype.from_text(type_)] = list(records)

    def drop(self, name: str) -> None:
        """There is no such name."""
        self._records.pop(dns.name.from_text(name), None)

    def resolver(self, search: Sequence[str] = (), *, ndots: int = 1, try_s: float = 5.0) -> Callable[[], Resolver]:
        """Makes resolvers that ask here, as a resolv.conf with these search domains would, again after ``try_s``."""

        def make() -> Resolver:
            resolver = Resolver(configure=False)
            resolver.nameservers = [self._host]
            resolver.port = self.port
            resolver.timeout = try_s
            resolver.search = [dns.name.from_text(suffix) for suffix in search]
            resolver.ndots = ndots
            return resolver

        return make

    def _datagram(self, data: bytes, sender: tuple[str, int]) -> None:
        for answer in self._answers(data, tcp=False):
            self._udp.sendto(answer, sender)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                (length,) = struct.unpack("!H", await reader.readexactly(2))
                for answer in self._answers(await reader.readexactly(length), tcp=True):
                    writer.write(struct.pack("!H", len(answer)) + answer)
                    await writer.drain()
        self._writers.discard(writer)
        writer.close()

    def _answers(self, data: bytes, *, tcp: bool) -> list[bytes]:
        query = dns.message.from_wire(data)
        question = query.question[0]
        self.asked.append(Question(question.name.to_text(), dns.rdatatype.to_text(question.rdtype), tcp))
        if self.manner is Manner.SILENT:
            return []
        if self.manner is Manner.GARBAGE:
            return [self.garbage]
        if self.manner is Manner.BROKEN and tcp:
            return [data[:2] + self.garbage]
        response = self._response(query)
        if self.manner is Manner.FORGED:
            forged = dns.message.from_wire(response.to_wire())
            forged.id ^= 1
            forged.answer = []
            return [forged.to_wire(), self._sized(response, tcp)]
        return [self._sized(response, tcp)]

    def _sized(self, response: dns.message.Message, tcp: bool) -> bytes:
        wire = response.to_wire(max_size=65_535)
        if self.manner in (Manner.TRUNCATED, Manner.BROKEN) or (not tcp and len(wire) > _MOST_UDP_BYTES):
            response.answer = []
            response.flags |= dns.flags.TC
            wire = response.to_wire()
        return wire

    def _response(self, query: dns.message.Message) -> dns.message.Message:
        response = dns.message.make_response(query, recursion_available=True)
        if self.manner in (Manner.SERVFAIL, Manner.REFUSED):
            response.set_rcode(dns.rcode.from_text(self.manner.name))
            return response
        name, type_ = query.question[0].name, query.question[0].rdtype
        for _ in range(_LONGEST_CHAIN):
            if name not in self._records:
                response.set_rcode(dns.rcode.NXDOMAIN)
                return response
            of_name = self._records[name]
            if aliases := of_name.get(dns.rdatatype.CNAME):
                response.answer.append(dns.rrset.from_text(name, _TTL_S, "IN", "CNAME", *aliases))
                name = dns.name.from_text(aliases[0])
                continue
            if records := of_name.get(type_):
                response.answer.append(dns.rrset.from_text_list(name, _TTL_S, "IN", type_, records))
            return response
        return response


class _Datagrams(asyncio.DatagramProtocol):
    def __init__(self, came: Callable[[bytes, tuple[str, int]], None]) -> None:
        self._came = came

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        self._came(data, addr)
