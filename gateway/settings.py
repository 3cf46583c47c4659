"""Settings: everything a user can set, from the environment. The only reader of it.

A setting is one field here: its name in the environment, its default, its reader and its line of documentation all
come from that field, and so does the README's table.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import router_strategies
from gateway.client_keys import ClientKey, read_client_keys
from gateway.redis_url import RedisTarget
from gateway.setting_field import (
    SettingsError,
    declared,
    env_name,
    in_cluster,
    read_value,
    setting,
    shown,
    table,
    unknown_names,
)
from gateway.setting_values import (
    Finder,
    KvEvents,
    Listen,
    RedisUrl,
    Secret,
    read_aliases,
    read_amount,
    read_api_keys,
    read_count,
    read_credential,
    read_duration,
    read_finder,
    read_fraction,
    read_header_names,
    read_json_object,
    read_kv_events,
    read_limit,
    read_listen,
    read_one_of,
    read_optional_path,
    read_origins,
    read_positive,
    read_positive_or_off,
    read_rates,
    read_redis_url,
    read_routes,
    read_strategies,
    read_switch,
    read_workers,
)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """All settings, checked. ``unknown`` are names in the environment that look like ours and are not."""

    listen: Listen = setting("0.0.0.0:8080", "The OpenAI API, /livez, /readyz, /health.", read_listen)
    metrics_listen: Listen = setting("0.0.0.0:9464", "Read-only: /metrics, /livez, /readyz.", read_listen)
    admin_listen: Listen = setting(
        "127.0.0.1:9465", "/status and /replicas; anything but loopback needs an admin token.", read_listen
    )
    admin_token: Secret = setting("", "Bearer token of the admin port.", read_credential)
    strategy: str = setting(
        "kv_aware",
        "Where requests go: the name of a file in `router_strategies/`; `prefixway serve --help` lists them.",
        router_strategies.canonical,
    )
    strategy_options: Mapping[str, object] = setting("{}", "JSON: the strategy's options.", read_json_object)
    rates: Mapping[str, float] = setting(
        "{}",
        "JSON: how fast a replica of speed 1.0 is held to be until it is learned, like "
        '`{"prefill_tokens_s": 12000, "l1_tokens_s": 50000}`; docs/routing.md has all of them.',
        read_rates,
    )
    client_strategy: bool = setting("false", "Whether a request may choose with `x-prefixway-strategy`.", read_switch)
    shadow: tuple[str, ...] = setting(
        "", "Strategies that are asked too, and not heeded: metrics say where they would differ.", read_strategies
    )
    decision_log: Path | None = setting(
        "", "File for a JSON line a decision (hashes, sizes, loads, scores), for `loadtest replay`.", read_optional_path
    )
    decision_log_mb: float = setting(
        "1024", "Size at which it is renamed to `*.1`, in place of the one before.", read_positive, unit="MB"
    )
    replicas: str = setting("", "Comma list of `[id=]url[?events=tcp://..&replay=tcp://..&speed=1.0]`.")
    replicas_file: Path | None = setting("", "YAML list of replicas, read again when it changes.", read_optional_path)
    discovery: Finder = setting(
        "static",
        "How replicas are found: static (as the two above say), `dns:name[:port]` (no port: SRV), "
        "`kubernetes:[namespace/]label=value[,...][:port]` (a container port's number or name).",
        read_finder,
    )
    discovery_interval_s: float = setting("3", "Between two looks at DNS or Kubernetes.", read_positive, unit="s")
    kubernetes_api: str = setting(
        "",
        "URL of the Kubernetes API; empty in a pod: that of its cluster. With `kubectl proxy` http://127.0.0.1:8001.",
    )
    kubernetes_account: Path = setting(
        "/var/run/secrets/kubernetes.io/serviceaccount",
        "Folder with the token and ca.crt to show there, and this pod's namespace.",
        Path,
    )
    kv_events: KvEvents = setting(
        "auto",
        "Where replicas publish KV events: auto asks them, off, or `tcp://{host}:5557,replay=tcp://{host}:5657`.",
        read_kv_events,
    )
    index: str = setting(
        "auto",
        "Where the index lies: memory, or redis for all gateways together (auto: redis if there is a URL).",
        read_one_of("auto", "memory", "redis"),
    )
    redis_url: RedisUrl = setting(
        "",
        "`redis://[[user]:password@]host[:port][/db]`, `rediss://` with TLS, `unix:///path`, "
        "`redis+cluster://host:port,...`, `redis+sentinel://host:port,.../name`.",
        read_redis_url,
    )
    redis_password: Secret = setting("", "Instead of one in the URL.", Secret)
    redis_prefix: str = setting("pw", "What our keys in Redis begin with: one for each fleet.")
    redis_timeout_s: float = setting("1", "For one answer of Redis, in the background.", read_positive, unit="s")
    index_budget_ms: float = setting(
        "5", "How long a request waits at most for the index in Redis.", read_positive, unit="ms"
    )
    indexer: str = setting(
        "inside",
        "Who follows the replicas' events into Redis: the gateways (inside), or `prefixway index` (outside).",
        read_one_of("inside", "outside"),
    )
    share_load: bool = setting(
        "true", "Whether gateways on one Redis tell each other what they send where.", read_switch
    )
    index_memory_mb: float | None = setting(
        "4096",
        "Memory of the index in this process; what helps least is forgotten first. off: no limit.",
        read_positive_or_off,
        unit="MB",
    )
    kv_capacity_tokens: int = setting(
        "262144",
        "Tokens that the cache of a replica holds which neither tells of its blocks nor how many it has.",
        read_count,
        unit="tokens",
    )
    l2: str = setting(
        "off",
        "Storage shared by all replicas: off, or estimate (prompts that any replica of a model finished lie there).",
        read_one_of("off", "estimate"),
    )
    l2_ttl_s: float = setting("3600", "How long the estimate holds a prompt to lie there.", read_positive, unit="s")
    tokenizer: str = setting("auto", "auto, a folder or tokenizer.json, a hub name[@revision], or `model=path,...`.")
    max_prompt_chars: int = setting("4000000", "Longer prompts are not tokenized here.", read_count, unit="characters")
    read_prompts: str = setting(
        "auto",
        "Whether prompts are tokenized under strategies that do not read them, for what the receipt says: auto (no), "
        "always.",
        read_one_of("auto", "always"),
    )
    hash_secret: Secret = setting("", "Keys the block hashes; made at random when empty.", Secret)
    session_headers: tuple[str, ...] = setting(
        "x-session-id",
        "Headers that name a session, the first one sent; with none, the body's `session_id`, `prompt_cache_key`, "
        "`user` or `metadata.user_id` does.",
        read_header_names,
    )
    api_keys: tuple[ClientKey, ...] = setting(
        "", "Keys that clients must send: a list of `key`, `name=key` or `name=sha256:...`.", read_api_keys
    )
    api_keys_file: Path | None = setting(
        "", "The same in a file, one a line, or YAML; read again when it changes.", read_optional_path
    )
    replica_api_key: Secret = setting("", "The key that replicas want.", read_credential)
    ask_usage: bool = setting(
        "false",
        "Whether streams are made to carry usage where their client asks for none; only we see it.",
        read_switch,
    )
    background_checks: bool = setting(
        "true",
        "Whether each replica that joins is checked, with a few small requests, as `prefixway check` does.",
        read_switch,
    )
    check_interval_s: float | None = setting(
        "3600", "Between two such checks of a replica; off: once.", read_positive_or_off, unit="s"
    )
    receipt: str = setting(
        "auto",
        "Answer headers: all, request_id, or auto (all unless API keys are set).",
        read_one_of("auto", "all", "request_id"),
    )
    hold_head: bool = setting(
        "true",
        "Whether an answer's head waits for its first body byte, so that a failure can be retried.",
        read_switch,
    )
    model_aliases: Mapping[str, str] = setting(
        "", "Further names of models, `alias=model,...`: clients see the alias, replicas the model.", read_aliases
    )
    allow_routes: tuple[str, ...] = setting(
        "", "Paths of replicas that are refused unless they are named here, such as `/reset_prefix_cache`.", read_routes
    )
    cors_origins: tuple[str, ...] = setting(
        "", "Origins of web pages that may ask from a browser, like `https://chat.example.com`; `*`: any.", read_origins
    )
    tls_cert: Path | None = setting(
        "", "PEM file: clients must speak TLS. It and its key are read again when they change.", read_optional_path
    )
    tls_key: Path | None = setting("", "PEM file: the certificate's private key.", read_optional_path)
    connect_timeout_s: float = setting("2", "For a connection to a replica.", read_positive, unit="s")
    first_byte_timeout_s: float | None = setting(
        "off",
        "How long a replica may take for its first body byte; off: as long as the client waits.",
        read_positive_or_off,
    )
    chunk_timeout_s: float = setting(
        "300", "How long a replica may be silent within an answer.", read_positive, unit="s"
    )
    retry_budget: float = setting(
        "0.1", "Requests that may be tried again after a 429 or 5xx: a part of all requests.", read_fraction
    )
    stall_s: float = setting(
        "60",
        "A replica with waiting requests that sends no byte to any of them for so long gets no new ones.",
        read_positive,
        unit="s",
    )
    upload_timeout_s: float = setting(
        "30",
        "How long a client may pause while it sends a request, or send fewer than 1,000 bytes a second; then 408.",
        read_positive,
        unit="s",
    )
    send_timeout_s: float = setting(
        "300", "How long a client may take nothing of its answer; then it has left.", read_positive, unit="s"
    )
    max_body_mb: float = setting("64", "Larger bodies are refused with 413.", read_positive, unit="MB")
    max_uploads_mb: float = setting(
        "1024", "Bodies that are being uploaded, together, in a process; more get 503.", read_positive, unit="MB"
    )
    max_inflight: int | None = setting("10000", "Requests at replicas at a time; off: no limit.", read_limit)
    max_inflight_tokens: int | None = setting("off", "Their prompt tokens together; off: no limit.", read_limit)
    max_queue: int = setting("1000", "Requests that wait for a place; more get 429. 0: none waits.", read_amount)
    max_queue_tokens: int | None = setting("off", "Their prompt tokens together; off: no limit.", read_limit)
    queue_timeout_s: float = setting(
        "30", "How long a request may wait for a place; then 503.", read_positive, unit="s"
    )
    client_priority: bool = setting(
        "false", "Whether `x-prefixway-priority` (a whole number, higher first) orders the queue.", read_switch
    )
    probe_interval_s: float = setting(
        "2",
        "Between two probes of a replica; its load is read more often where others use it.",
        read_positive,
        unit="s",
    )
    probe_timeout_s: float = setting("5", "For one answer to a probe.", read_positive, unit="s")
    workers: int = setting("1", "Processes that serve, up to 256; more than one needs Redis.", read_workers)
    linger_s: float = setting(
        "5",
        "After SIGTERM, while load balancers look elsewhere: how long new requests are served.",
        read_duration,
        unit="s",
    )
    drain_s: float = setting("20", "How long running answers may take after SIGTERM.", read_duration, unit="s")
    access_log: bool = setting("true", "A JSON line a request.", read_switch)
    log_level: str = setting("info", "debug, info, warning or error.", read_one_of("debug", "info", "warning", "error"))
    strict_env: bool = setting("false", "Whether an unknown PREFIXWAY_ name stops the start.", read_switch)
    unknown: tuple[str, ...] = ()

    @classmethod
    def from_env(cls, environ: Mapping[str, str]) -> Self:
        """Read and check everything. Raises :class:`SettingsError` that names the setting at fault."""
        values = {item.name: read_value(item, environ) for item in declared(cls)}
        values["kubernetes_api"] = values["kubernetes_api"] or in_cluster(environ)
        settings = cls(**values, unknown=unknown_names(cls, environ))
        settings._check()
        return settings

    def _check(self) -> None:
        if not self.admin_listen.is_loopback and not self.admin_token:
            raise SettingsError("PREFIXWAY_ADMIN_LISTEN is not loopback: set PREFIXWAY_ADMIN_TOKEN as well")
        try:
            router_strategies.load(self.strategy, self.strategy_options)
        except ValueError as error:
            raise SettingsError(f"PREFIXWAY_STRATEGY_OPTIONS: {error}") from error
        if self.max_uploads_mb < self.max_body_mb:
            raise SettingsError("PREFIXWAY_MAX_UPLOADS_MB is below PREFIXWAY_MAX_BODY_MB: no such body could come in")
        self._check_discovery()
        self._check_keys()
        self._check_redis()
        if self.strict_env and self.unknown:
            raise SettingsError("; ".join(self.unknown))

    def _check_discovery(self) -> None:
        if self.discovery.kind == "static":
            return
        if self.replicas or self.replicas_file:
            raise SettingsError(
                f"PREFIXWAY_DISCOVERY={self.discovery} finds the replicas: "
                "PREFIXWAY_REPLICAS and PREFIXWAY_REPLICAS_FILE must be empty"
            )
        if self.discovery.kind == "kubernetes" and not self.kubernetes_api:
            raise SettingsError(
                f"PREFIXWAY_DISCOVERY={self.discovery} is meant for a pod of the cluster; "
                "elsewhere PREFIXWAY_KUBERNETES_API must say where its API is"
            )

    def _check_keys(self) -> None:
        if self.api_keys_file is None:
            return
        if self.api_keys:
            raise SettingsError("PREFIXWAY_API_KEYS and PREFIXWAY_API_KEYS_FILE are both set: choose one")
        try:
            read_client_keys(self.api_keys_file)
        except ValueError as error:
            raise SettingsError(f"PREFIXWAY_API_KEYS_FILE: {error}") from error

    def _check_redis(self) -> None:
        try:
            self.redis  # noqa: B018 - raises
        except ValueError as error:
            raise SettingsError(f"PREFIXWAY_REDIS_URL: {error}") from error
        if not self.uses_redis and (self.index == "redis" or self.workers > 1):
            raise SettingsError("PREFIXWAY_INDEX=redis and PREFIXWAY_WORKERS above 1 need PREFIXWAY_REDIS_URL")
        if self.indexer == "outside" and not self.shares_index:
            raise SettingsError("PREFIXWAY_INDEXER=outside needs PREFIXWAY_REDIS_URL, and an index there")

    @property
    def uses_redis(self) -> bool:
        """Whether this process tells others, through Redis, what it knows."""
        return bool(self.redis_url)

    @property
    def shares_index(self) -> bool:
        """Whether the index lies in Redis."""
        return self.uses_redis and self.index != "memory"

    @property
    def redis(self) -> RedisTarget | None:
        """Which Redis, if any."""
        return RedisTarget.parse(self.redis_url, self.redis_password) if self.uses_redis else None

    @property
    def wants_keys(self) -> bool:
        """Whether clients must send a key: also while the file has none."""
        return bool(self.api_keys) or self.api_keys_file is not None

    @property
    def shows_receipt(self) -> bool:
        """Whether answers tell which replica, and what was cached: to everybody, or not where keys part tenants.

        A key of its own may say otherwise.
        """
        return self.receipt == "all" or (self.receipt == "auto" and not self.wants_keys)

    def effective(self) -> dict[str, str]:
        """Every setting as text, by its name in the environment; secrets masked."""
        return {env_name(item): shown(getattr(self, item.name)) for item in declared(type(self))}

    @classmethod
    def table(cls) -> str:
        """The README's table."""
        return table(cls)


def check_redis_client(settings: Settings) -> None:
    """Raises :class:`SettingsError` if Redis is to be used and what speaks to it is not installed."""
    missing = [name for name in ("redis", "hiredis") if importlib.util.find_spec(name) is None]
    if settings.uses_redis and missing:
        raise SettingsError(f"PREFIXWAY_REDIS_URL needs {' and '.join(missing)}: pip install 'prefixway[redis]'")
