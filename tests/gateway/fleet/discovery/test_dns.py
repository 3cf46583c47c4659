"""Servers behind a name: what name servers say is a list, and what they do not say changes nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from dns.asyncresolver import Resolver
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.fleet.discovery.dns import DnsNames
from gateway.fleet.discovery.polling import LookupFailed
from tests.fakes.name_server import Manner, NameServer

_NAME = "vllm.models.svc"
_SERVICE = "_http._tcp.vllm.models.svc"


@pytest.fixture
async def names() -> AsyncIterator[NameServer]:
    async with NameServer() as server:
        yield server


def addresses(names: NameServer, name: str = _NAME) -> DnsNames:
    """The finder of ``dns:vllm.models.svc:8000``."""
    return DnsNames(name, 8000, resolver=names.resolver())


def services(names: NameServer) -> DnsNames:
    """The finder of ``dns:_http._tcp.vllm.models.svc``."""
    return DnsNames(_SERVICE, None, resolver=names.resolver())


async def ids(finder: DnsNames) -> list[str]:
    return [spec.id for spec in (await finder.look_up()).specs]


async def fault(finder: DnsNames) -> str:
    with pytest.raises(LookupFailed) as failure:
        await finder.look_up()
    return str(failure.value)


# Addresses


async def test_each_address_is_a_server(names: NameServer) -> None:
    names.put(_NAME, "A", "10.0.0.8", "10.0.0.7")
    found = await addresses(names).look_up()

    assert [spec.id for spec in found.specs] == ["10.0.0.7:8000", "10.0.0.8:8000"]
    assert [spec.origin.url for spec in found.specs] == ["http://10.0.0.7:8000", "http://10.0.0.8:8000"]
    assert not found.held_back


async def test_the_same_servers_are_the_same_list_in_whatever_order(names: NameServer) -> None:
    """Name servers rotate, and may say an address twice."""
    finder = addresses(names)
    names.put(_NAME, "A", "10.0.0.7", "10.0.0.8")
    before = await finder.look_up()
    names.put(_NAME, "A", "10.0.0.8", "10.0.0.7", "10.0.0.8")

    assert await finder.look_up() == before


async def test_a_server_in_both_families_is_one(names: NameServer) -> None:
    names.put(_NAME, "A", "10.0.0.7")
    names.put(_NAME, "AAAA", "fd00::7")

    assert await ids(addresses(names)) == ["10.0.0.7:8000"]


async def test_where_there_are_only_ipv6_addresses_they_are_the_servers(names: NameServer) -> None:
    names.put(_NAME, "AAAA", "fd00:0:0::1", "fd00::2")
    found = await addresses(names).look_up()

    assert [spec.id for spec in found.specs] == ["[fd00::1]:8000", "[fd00::2]:8000"]
    assert found.specs[0].origin.host == "fd00::1"
    assert found.specs[0].origin.url == "http://[fd00::1]:8000"


async def test_a_moment_without_ipv4_does_not_rename_the_fleet(names: NameServer) -> None:
    finder = addresses(names)
    names.put(_NAME, "A", "10.0.0.7")
    names.put(_NAME, "AAAA", "fd00::7")
    await finder.look_up()
    names.put(_NAME, "A")

    assert "no A records any more" in await fault(finder)
    names.put(_NAME, "A", "10.0.0.7")
    assert await ids(finder) == ["10.0.0.7:8000"]
    names.put(_NAME, "A")
    await fault(finder)
    await fault(finder)
    assert await ids(finder) == ["[fd00::7]:8000"]  # it does mean it
    names.put(_NAME, "A", "10.0.0.7")
    assert await ids(finder) == ["10.0.0.7:8000"]


async def test_aliases_are_followed(names: NameServer) -> None:
    names.put(_NAME, "CNAME", "real.models.svc.")
    names.put("real.models.svc", "CNAME", "more.real.models.svc.")
    names.put("more.real.models.svc", "A", "10.0.0.7")

    assert await ids(addresses(names)) == ["10.0.0.7:8000"]


async def test_aliases_in_a_circle_have_no_addresses(names: NameServer) -> None:
    names.put(_NAME, "CNAME", "other.models.svc.")
    names.put("other.models.svc", "CNAME", f"{_NAME}.")

    assert "vllm.models.svc" in await fault(addresses(names))


async def test_five_hundred_addresses_come_over_tcp(names: NameServer) -> None:
    """They do not fit into a datagram."""
    names.put(_NAME, "A", *(f"10.1.{number // 250}.{number % 250}" for number in range(500)))

    assert len(await ids(addresses(names))) == 500
    assert [question.tcp for question in names.asked] == [False, True]


async def test_half_an_answer_is_none(names: NameServer) -> None:
    names.put(_NAME, "A", "10.0.0.7")
    finder = addresses(names)
    await finder.look_up()
    names.manner = Manner.TRUNCATED

    assert "cut over TCP too" in await fault(finder)


async def test_an_address_needs_no_name_server(names: NameServer) -> None:
    assert await ids(addresses(names, "10.0.0.7")) == ["10.0.0.7:8000"]
    assert not names.asked


async def test_search_domains_as_resolv_conf_has_them(names: NameServer) -> None:
    names.put("vllm.models.svc.cluster.local", "A", "10.0.0.7")
    domains = ["models.svc.cluster.local", "svc.cluster.local"]

    assert await ids(DnsNames("vllm.models", 80, resolver=names.resolver(domains, ndots=5))) == ["10.0.0.7:80"]
    assert [question.name for question in names.asked] == [
        "vllm.models.models.svc.cluster.local.",
        "vllm.models.svc.cluster.local.",
    ]
    assert await ids(DnsNames("vllm.models.svc.cluster.local.", 80, resolver=names.resolver(domains, ndots=5)))
    assert names.asked[2:] == [("vllm.models.svc.cluster.local.", "A", False)]


# SRV


async def test_each_service_record_is_a_server_by_name(names: NameServer) -> None:
    """Names, so that a pod that comes back under its name is found at its new address."""
    names.put(_SERVICE, "SRV", "0 33 8000 vllm-1.vllm.models.svc.", "0 99 8001 VLLM-0.vllm.models.svc.")
    found = await services(names).look_up()

    assert [spec.id for spec in found.specs] == ["vllm-0.vllm.models.svc:8001", "vllm-1.vllm.models.svc:8000"]
    assert [spec.origin.host for spec in found.specs] == ["vllm-0.vllm.models.svc", "vllm-1.vllm.models.svc"]
    assert [spec.speed for spec in found.specs] == [1.0, 1.0]
    assert not found.held_back
    assert [question.type for question in names.asked] == ["SRV"]


async def test_all_but_the_first_priority_stand_by(names: NameServer) -> None:
    names.put(_SERVICE, "SRV", "20 0 80 spare.svc.", "10 0 80 a.svc.", "10 0 80 b.svc.", "20 0 80 a.svc.")
    found = await services(names).look_up()

    assert [spec.id for spec in found.specs] == ["a.svc:80", "b.svc:80", "spare.svc:80"]
    assert set(found.held_back) == {"spare.svc:80"}


async def test_a_record_that_names_no_server_is_left_out_and_told(names: NameServer) -> None:
    names.put(_SERVICE, "SRV", "0 0 80 a.svc.", "0 0 0 b.svc.", "0 0 80 no\\032name.svc.")
    found = await services(names).look_up()

    assert [spec.id for spec in found.specs] == ["a.svc:80"]
    assert len(found.faults) == 2
    assert all("names no server: 'http://" in fault for fault in found.faults)


async def test_a_service_that_is_decidedly_not_there(names: NameServer) -> None:
    """A target that is the root (RFC 2782)."""
    names.put(_SERVICE, "SRV", "0 0 80 .")

    found = await services(names).look_up()
    assert (found.specs, found.faults) == ((), ())


# Answers that are none


@pytest.mark.parametrize("has", ["name", "no name"])
async def test_nothing_is_believed_when_it_was_said_three_times(names: NameServer, has: str) -> None:
    finder = addresses(names)
    names.put(_NAME, "A", "10.0.0.7")
    await finder.look_up()
    if has == "name":
        names.put(_NAME, "A")
    else:
        names.drop(_NAME)
    said = {"name": "the name has no A and no AAAA records", "no name": "there is no such name"}[has]

    expected = f"DNS, vllm.models.svc: {said}; believed when said 3 times in a row"
    assert [await fault(finder), await fault(finder)] == [expected, expected]
    assert await ids(finder) == []
    assert await ids(finder) == []
    names.put(_NAME, "A", "10.0.0.9")
    assert await ids(finder) == ["10.0.0.9:8000"]


async def test_doubts_end_with_an_answer(names: NameServer) -> None:
    finder = addresses(names)
    for _ in range(3):
        names.put(_NAME, "A", "10.0.0.7")
        assert await ids(finder) == ["10.0.0.7:8000"]
        names.drop(_NAME)
        await fault(finder)
        await fault(finder)


async def test_service_records_that_vanish_are_doubted_too(names: NameServer) -> None:
    finder = services(names)
    names.put(_SERVICE, "SRV", "0 0 80 a.svc.")
    await finder.look_up()
    names.put(_SERVICE, "SRV")

    assert "no SRV record names a server" in await fault(finder)
    await fault(finder)
    assert await ids(finder) == []


@pytest.mark.parametrize("finder_of", [addresses, services])
async def test_where_nothing_was_nothing_is_believed_at_once(names: NameServer, finder_of: object) -> None:
    assert callable(finder_of)
    assert await ids(finder_of(names)) == []


@pytest.mark.parametrize(
    ("manner", "said"),
    [(Manner.SERVFAIL, "says SERVFAIL"), (Manner.REFUSED, "says REFUSED")],
)
async def test_a_name_server_in_trouble_changes_nothing(names: NameServer, manner: Manner, said: str) -> None:
    names.put(_NAME, "A", "10.0.0.7")
    finder = addresses(names)
    await finder.look_up()
    names.manner = manner
    faults = {await fault(finder) for _ in range(4)}  # however often

    assert faults == {f"DNS, vllm.models.svc: 127.0.0.1:{names.port} {said}"}
    names.manner = Manner.TRUE
    assert await ids(finder) == ["10.0.0.7:8000"]


@pytest.mark.parametrize("manner", [Manner.SILENT, Manner.GARBAGE])
async def test_a_name_server_that_does_not_answer_is_not_waited_for_long(names: NameServer, manner: Manner) -> None:
    """What is no DNS might be anybody's: an answer may still come."""
    names.manner = manner
    finder = DnsNames(_NAME, 8000, resolver=names.resolver(try_s=0.1), patience_s=0.5)

    assert await fault(finder) == f"DNS, vllm.models.svc: 127.0.0.1:{names.port} does not answer"
    assert len(names.asked) > 1


async def test_an_answer_to_another_question_is_passed_over(names: NameServer) -> None:
    """It may be an enemy's."""
    names.put(_NAME, "A", "10.0.0.7")
    names.manner = Manner.FORGED

    assert await ids(addresses(names)) == ["10.0.0.7:8000"]


async def test_where_no_name_server_listens(names: NameServer) -> None:
    finder = DnsNames(_NAME, 8000, resolver=names.resolver(), patience_s=0.3)
    await names.__aexit__()

    assert "vllm.models.svc" in await fault(finder)
    await names.__aenter__()


async def test_a_machine_without_name_servers_is_told_so() -> None:
    finder = DnsNames(_NAME, 8000, resolver=lambda: Resolver("/nowhere/resolv.conf"))

    assert "/nowhere/resolv.conf" in await fault(finder)


async def test_a_name_that_is_none_is_no_crash(names: NameServer) -> None:
    for name in ("a..b", "a" * 64 + ".b", ".".join(["a" * 60] * 5)):
        assert name in await fault(addresses(names, name))


@settings(max_examples=60)
@given(tail=st.binary(max_size=200))
async def test_no_bytes_of_a_name_server_are_a_crash(tail: bytes) -> None:
    """Over TCP, where nobody else could have sent them: they carry the question's id."""
    async with NameServer() as names:
        finder = DnsNames(_NAME, 8000, resolver=names.resolver(), patience_s=0.05)
        names.manner, names.garbage = Manner.BROKEN, tail
        assert "Truncated" not in await fault(finder)


async def test_nothing_is_kept_between_looks(names: NameServer) -> None:
    finder = addresses(names)
    for number in range(3):
        names.put(_NAME, "A", f"10.0.0.{number}")
        assert await ids(finder) == [f"10.0.0.{number}:8000"]
    await finder.close()
