"""The client for a target: which connections it takes, by the form of its URL."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from redis.asyncio.connection import (
    AbstractConnection,
    Connection,
    ConnectionPool,
    RedisSSLContext,
    SSLConnection,
    UnixDomainSocketConnection,
)
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from gateway.redis_url import Host, RedisTarget, TlsOptions
from gateway.setting_field import SettingsError
from gateway.shared.link.cluster_client import ClusterClient
from gateway.shared.link.redis_client import PooledClient, RedisClient
from gateway.shared.link.sentinel_client import SentinelClient

_LOST_AFTER_S = 10  # of a connection: what it sent is acknowledged by nobody for so long
_CERT_REQS = {"none": ssl.CERT_NONE, "optional": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}


class TlsConnection(SSLConnection):
    """All share one context: to make one reads every certificate authority of the system, 20 ms on the event loop."""

    def __init__(self, *, tls_context: ssl.SSLContext, **options: Any) -> None:
        super().__init__(**options)
        self.ssl_context = RedisSSLContext()
        self.ssl_context.context = tls_context


@dataclass
class _Clients:
    """Makes clients of single servers. ``tls``: of the whole target, or none."""

    connected: Callable[[], None]
    tls: ssl.SSLContext | None

    def at(self, host: Host, username: str, password: str, db: int, timeout_s: float) -> PooledClient:
        options = self._options(username, password, db, timeout_s) | {
            "host": host.name,
            "port": host.port,
            "socket_keepalive": True,
            # Also ends a connection that was closed with data in it that the other side does not take.
            "socket_keepalive_options": {
                socket.TCP_KEEPIDLE: _LOST_AFTER_S,
                socket.TCP_KEEPINTVL: 1,
                socket.TCP_KEEPCNT: 3,
                socket.TCP_USER_TIMEOUT: _LOST_AFTER_S * 1000,
            },
        }
        if self.tls is None:
            return PooledClient(ConnectionPool(Connection, **options), timeout_s)
        return PooledClient(ConnectionPool(TlsConnection, tls_context=self.tls, **options), timeout_s)

    def at_path(self, path: str, username: str, password: str, db: int, timeout_s: float) -> PooledClient:
        options = self._options(username, password, db, timeout_s)
        return PooledClient(ConnectionPool(UnixDomainSocketConnection, path=path, **options), timeout_s)

    def _options(self, username: str, password: str, db: int, timeout_s: float) -> dict[str, Any]:
        return {
            "db": db,
            "username": username or None,
            "password": password or None,
            "protocol": 2,
            "socket_timeout": None,  # an exchange has its own deadline
            "socket_connect_timeout": timeout_s,
            "retry": Retry(NoBackoff(), 0),
            "redis_connect_func": self._log_in,
        }

    async def _log_in(self, connection: AbstractConnection) -> None:
        await connection.on_connect()
        self.connected()


def client_for(target: RedisTarget, timeout_s: float, connected: Callable[[], None]) -> RedisClient:
    """``connected`` is called for each connection that is made. Raises ``SettingsError`` for unreadable TLS files."""
    clients = _Clients(connected, _tls_context(target.tls) if target.tls else None)

    def server(host: Host) -> PooledClient:
        return clients.at(host, target.username, target.password, target.db, timeout_s)

    def sentinel(host: Host) -> PooledClient:
        patience_s = timeout_s / (len(target.hosts) + 1)  # a silent one leaves time for the others and the server
        return clients.at(host, target.sentinel_username, target.sentinel_password, 0, patience_s)

    if target.form == "unix":
        return clients.at_path(target.path, target.username, target.password, target.db, timeout_s)
    if target.form == "cluster":
        return ClusterClient(target.hosts, server, timeout_s)
    if target.form == "sentinel":
        return SentinelClient([sentinel(host) for host in target.hosts], target.master, server, timeout_s)
    return server(target.hosts[0])


def _tls_context(tls: TlsOptions) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=tls.ca_certs)
        if tls.certfile:
            context.load_cert_chain(tls.certfile, tls.keyfile)
    except OSError as error:
        raise SettingsError(f"PREFIXWAY_REDIS_URL: its TLS files cannot be read: {error}") from error
    context.check_hostname = tls.check_hostname
    context.verify_mode = _CERT_REQS[tls.cert_reqs]
    return context
