"""KubernetesPods: the pods of one namespace that have certain labels, listed by the cluster's API.

A whole list each time, never a watch: what a list does not name is gone, whatever events were lost. ``list`` on pods
is all the right that it takes.
"""

from __future__ import annotations

import asyncio

from gateway.fleet.discovery.kubernetes_api import Gone, KubernetesApi
from gateway.fleet.discovery.pod_list import Pod, parse_page
from gateway.fleet.discovery.pods import found_in
from gateway.fleet.discovery.polling import Found, LookupFailed
from gateway.fleet.discovery.service_account import ServiceAccount
from gateway.setting_values import Finder

_PATIENCE_S = 15.0
_PODS_A_PAGE = 250  # some megabytes: a thread that reads one keeps the event loop waiting for milliseconds
_MOST_PAGES = 100
_MOST_PAGE_BYTES = 64_000_000
_STARTS = 3


class KubernetesPods:
    """A directory. ``finder`` says which pods, and which port of theirs.

    No ``resourceVersion`` is sent: "0" would be answered from whatever one API server remembers, and one that lags
    behind another brings back pods that are gone and loses those that came. Without it lists never go backwards; since
    Kubernetes 1.31 they come from memory all the same.
    https://kubernetes.io/docs/reference/using-api/api-concepts/#resource-versions
    """

    def __init__(
        self, api: KubernetesApi, account: ServiceAccount, finder: Finder, *, patience_s: float = _PATIENCE_S
    ) -> None:
        """``patience_s``: for a whole list."""
        self._api = api
        self._account = account
        self._finder = finder
        self._patience_s = patience_s

    async def look_up(self) -> Found:
        """All that are there now. Raises :class:`LookupFailed`."""
        namespace = self._finder.namespace or self._account.namespace()
        try:
            async with asyncio.timeout(self._patience_s):
                pods, odd = await self._list(namespace)
        except TimeoutError:
            raise LookupFailed(f"no list of pods within {self._patience_s:g} s") from None
        return await asyncio.to_thread(found_in, pods, self._finder.port, odd=odd)

    async def close(self) -> None:
        await self._api.close()

    async def _list(self, namespace: str) -> tuple[list[Pod], int]:
        """The pods, and how many entries are none.

        A list whose beginning is forgotten before it was read to its end is read from the beginning again.
        """
        for _ in range(_STARTS - 1):
            try:
                return await self._pages(namespace)
            except Gone:
                continue
        return await self._pages(namespace)

    async def _pages(self, namespace: str) -> tuple[list[Pod], int]:
        pods, odd = list[Pod](), 0
        path, rest = f"/api/v1/namespaces/{namespace}/pods", ""
        for _ in range(_MOST_PAGES):
            query = {"labelSelector": self._finder.name, "limit": str(_PODS_A_PAGE)}
            if rest:
                query["continue"] = rest
            body = await self._api.get(path, query, most_bytes=_MOST_PAGE_BYTES)
            page = await asyncio.to_thread(parse_page, body)
            pods += page.pods
            odd, rest = odd + page.odd, page.rest
            if not rest:
                return pods, odd
        raise LookupFailed(f"a list of pods without an end: {_MOST_PAGES} pages")
