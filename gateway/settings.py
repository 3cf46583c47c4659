"""Settings: everything a user can set, from the environment. The only reader of it.

A setting is one field here: its name in the environment, its default, its reader and its line of documentation all
come from that field, and so does the README's table.
"""

from __future__ import annotations

import difflib
import importlib.util
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import Field, dataclass, field, fields
from pathlib import Path
from typing import Any, NamedTuple, Self

import router_strategies
from gateway.redis_url import RedisTarget

PREFIX = "PREFIXWAY_"

#: What Kubernetes injects for a Service whose name begins with "prefixway": never ours.
_SERVICE_LINK = re.compile(r"PREFIXWAY_(.+_)?(SERVICE_HOST|SERVICE_PORT(_.+)?|PORT(_\d+_(TCP|UDP|SCTP)(_.+)?)?)")


class SettingsError(ValueError):
    """A setting is wrong; the message names it and says what it may be."""


class Listen(NamedTuple):
    """Where to listen. ``host`` is bare: no brackets around IPv6. Port 0: any free one."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        return self.host in ("localhost", "::1") or self.host.startswith("127.")


class KvEvents(NamedTuple):
    """``mode``: auto (ask each replica), off, or fixed: every replica publishes at ``events`` and ``replay``."""

    mode: str
    events: str | None = None
    replay: str | None = None


class Secret(str):
    """A string that is never shown."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "'***'" if self else "''"


class RedisUrl(Secret):
    """A URL that :meth:`RedisTarget.parse` takes, or empty."""

    __slots__ = ()

    @property
    def shown(self) -> str:
        """Without passwords."""
        return RedisTarget.parse(self).shown if self else ""


def _text(value: str) -> str:
    return value


def _listen(value: str) -> Listen:
    host, separator, port = value.rpartition(":")
    if not separator or not port.isdecimal() or int(port) > 65535:
        raise ValueError("must be host:port, like 0.0.0.0:8080")
    return Listen(host.strip("[]") or "0.0.0.0", int(port))  # noqa: S104 - an empty host means every interface


def _switch(value: str) -> bool:
    words = {
        "true": True,
        "yes": True,
        "on": True,
        "1": True,
        "false": False,
        "no": False,
        "off": False,
        "0": False,
    }
    if value.lower() not in words:
        raise ValueError("must be true or false")
    return words[value.lower()]


def _positive(value: str) -> float:
    number = float(value) if re.fullmatch(r"\d+(\.\d*)?|\.\d+", value) else 0.0
    if number <= 0:
        raise ValueError("must be a number above 0")
    return number


def _count(value: str) -> int:
    if not value.isdecimal() or int(value) == 0:
        raise ValueError("must be a whole number above 0")
    return int(value)


def _one_of(*words: str) -> Callable[[str], str]:
    def read(value: str) -> str:
        if value.lower() not in words:
            raise ValueError(f"must be one of {', '.join(words)}")
        return value.lower()

    return read


def _words(value: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in value.split(",") if word.strip())


def _headers(value: str) -> tuple[str, ...]:
    return tuple(word.lower() for word in _words(value))


def _secrets(value: str) -> tuple[Secret, ...]:
    return tuple(Secret(word) for word in re.split(r"[,\s]+", value) if word)


def _options(value: str) -> Mapping[str, object]:
    try:
        options = json.loads(value)
    except ValueError as error:
        raise ValueError(f"must be a JSON object: {error}") from error
    if not isinstance(options, dict):
        raise ValueError("must be a JSON object")
    return options


def _file(value: str) -> Path | None:
    return Path(value) if value else None


def _redis_url(value: str) -> RedisUrl:
    if value:
        RedisTarget.parse(value)
    return RedisUrl(value)


def _kv_events(value: str) -> KvEvents:
    if value.lower() in ("auto", "off"):
        return KvEvents(value.lower())
    events, _, rest = value.partition(",")
    replay = rest.removeprefix("replay=") if rest else None
    for endpoint in (events, replay):
        if endpoint is not None and not endpoint.startswith(("tcp://", "ipc://")):
            raise ValueError("must be auto, off, or tcp://{host}:5557,replay=tcp://{host}:5657")
    return KvEvents("fixed", events, replay)


def setting(default: str, doc: str, read: Callable[[str], Any] = _text, *, unit: str = "") -> Any:
    """A field of :class:`Settings`: ``default`` as a user would write it, and what it means."""
    return field(
        default_factory=lambda: read(default),
        metadata={"text": default, "doc": doc, "read": read, "unit": unit},
    )


@dataclass(frozen=True, kw_only=True)
class Settings:
    """All settings, checked. ``unknown`` are names in the environment that look like ours and are not."""

    listen: Listen = setting("0.0.0.0:8080", "The OpenAI API, /livez, /readyz, /health.", _listen)
    metrics_listen: Listen = setting("0.0.0.0:9464", "Read-only: /metrics, /livez, /readyz.", _listen)
    admin_listen: Listen = setting(
        "127.0.0.1:9465", "/status and /replicas; anything but loopback needs an admin token.", _listen
    )
    admin_token: Secret = setting("", "Bearer token of the admin port.", Secret)
    strategy: str = setting(
        "kv_aware",
        "Where requests go: the name of a file in `router_strategies/`; `prefixway serve --help` lists them.",
        router_strategies.canonical,
    )
    strategy_options: Mapping[str, object] = setting("{}", "JSON: the strategy's options.", _options)
    client_strategy: bool = setting("false", "Whether a request may choose with `x-prefixway-strategy`.", _switch)
    replicas: str = setting("", "Comma list of `[id=]url[?events=tcp://..&replay=tcp://..&speed=1.0]`.")
    replicas_file: Path | None = setting("", "YAML list of replicas, read again when it changes.", _file)
    discovery: str = setting("static", "How replicas are found: static.", _one_of("static"))
    kv_events: KvEvents = setting(
        "auto",
        "Where replicas publish KV events: auto asks them, off, or `tcp://{host}:5557,replay=tcp://{host}:5657`.",
        _kv_events,
    )
    index: str = setting(
        "auto",
        "Where the index lies: memory, or redis for all gateways together (auto: redis if there is a URL).",
        _one_of("auto", "memory", "redis"),
    )
    redis_url: RedisUrl = setting(
        "",
        "`redis://[[user]:password@]host[:port][/db]`, `rediss://` with TLS, `unix:///path`, "
        "`redis+cluster://host:port,...`, `redis+sentinel://host:port,.../name`.",
        _redis_url,
    )
    redis_password: Secret = setting("", "Instead of one in the URL.", Secret)
    redis_prefix: str = setting("pw", "What our keys in Redis begin with: one for each fleet.")
    redis_timeout_s: float = setting("1", "For one answer of Redis, in the background.", _positive, unit="s")
    index_budget_ms: float = setting(
        "5", "How long a request waits at most for the index in Redis.", _positive, unit="ms"
    )
    indexer: str = setting(
        "inside",
        "Who follows the replicas' events into Redis: the gateways (inside), or `prefixway index` (outside).",
        _one_of("inside", "outside"),
    )
    share_load: bool = setting("true", "Whether gateways on one Redis tell each other what they send where.", _switch)
    tokenizer: str = setting("auto", "auto, a folder or tokenizer.json, a hub name[@revision], or `model=path,...`.")
    max_prompt_chars: int = setting("4000000", "Longer prompts are not tokenized here.", _count, unit="characters")
    hash_secret: Secret = setting("", "Keys the block hashes; made at random when empty.", Secret)
    session_headers: tuple[str, ...] = setting("x-session-id", "Headers that name a session.", _headers)
    api_keys: tuple[Secret, ...] = setting("", "Keys that clients must send as a bearer token; a list.", _secrets)
    replica_api_key: Secret = setting("", "The key that replicas want.", Secret)
    receipt: str = setting(
        "auto",
        "Answer headers: all, request_id, or auto (all unless API keys are set).",
        _one_of("auto", "all", "request_id"),
    )
    hold_head: bool = setting(
        "true",
        "Whether an answer's head waits for its first body byte, so that a failure can be retried.",
        _switch,
    )
    connect_timeout_s: float = setting("2", "For a connection to a replica.", _positive, unit="s")
    chunk_timeout_s: float = setting(
        "300", "How long a replica that owes an answer, or the rest of one, may be silent.", _positive, unit="s"
    )
    max_body_mb: float = setting("64", "Larger bodies are refused with 413.", _positive, unit="MB")
    probe_interval_s: float = setting("2", "Between two probes of a replica.", _positive, unit="s")
    probe_timeout_s: float = setting("5", "For one answer to a probe.", _positive, unit="s")
    workers: int = setting("1", "Processes that serve; more than one needs Redis.", _count)
    drain_s: float = setting("20", "How long running answers may take after SIGTERM.", _positive, unit="s")
    access_log: bool = setting("true", "A JSON line a request.", _switch)
    log_level: str = setting("info", "debug, info, warning or error.", _one_of("debug", "info", "warning", "error"))
    strict_env: bool = setting("false", "Whether an unknown PREFIXWAY_ name stops the start.", _switch)
    unknown: tuple[str, ...] = ()

    @classmethod
    def from_env(cls, environ: Mapping[str, str]) -> Self:
        """Read and check everything. Raises :class:`SettingsError` that names the setting at fault."""
        values = {item.name: _value(item, environ) for item in _declared()}
        settings = cls(**values, unknown=_unknown(environ))
        settings._check()
        return settings

    def _check(self) -> None:
        if not self.admin_listen.is_loopback and not self.admin_token:
            raise SettingsError("PREFIXWAY_ADMIN_LISTEN is not loopback: set PREFIXWAY_ADMIN_TOKEN as well")
        try:
            router_strategies.load(self.strategy, self.strategy_options)
        except ValueError as error:
            raise SettingsError(f"PREFIXWAY_STRATEGY_OPTIONS: {error}") from error
        self._check_redis()
        if self.strict_env and self.unknown:
            raise SettingsError("; ".join(self.unknown))

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
    def shows_receipt(self) -> bool:
        """Whether answers tell which replica, and what was cached: to everybody, or not where keys part tenants."""
        return self.receipt == "all" or (self.receipt == "auto" and not self.api_keys)

    def effective(self) -> dict[str, str]:
        """Every setting as text, by its name in the environment; secrets masked."""
        return {env_name(item): _shown(getattr(self, item.name)) for item in _declared()}

    @classmethod
    def table(cls) -> str:
        """The README's table."""
        rows = ["| setting | default | |", "|---|---|---|"]
        for item in _declared():
            default = f"`{item.metadata['text']}`" if item.metadata["text"] else ""
            unit = f" {item.metadata['unit']}" if item.metadata["unit"] else ""
            twin = " Also as `_FILE`." if _is_secret(item) else ""
            rows.append(f"| `{env_name(item)}` | {default}{unit} | {item.metadata['doc']}{twin} |")
        return "\n".join(rows)


def check_redis_client(settings: Settings) -> None:
    """Raises :class:`SettingsError` if Redis is to be used and what speaks to it is not installed."""
    missing = [name for name in ("redis", "hiredis") if importlib.util.find_spec(name) is None]
    if settings.uses_redis and missing:
        raise SettingsError(f"PREFIXWAY_REDIS_URL needs {' and '.join(missing)}: pip install 'prefixway[redis]'")


def env_name(item: Field[Any]) -> str:
    """A setting's name in the environment."""
    return PREFIX + item.name.upper()


def _declared() -> list[Field[Any]]:
    return [item for item in fields(Settings) if "read" in item.metadata]


def _is_secret(item: Field[Any]) -> bool:
    return item.metadata["read"] in (Secret, _secrets, _redis_url)


def _value(item: Field[Any], environ: Mapping[str, str]) -> Any:
    name = env_name(item)
    text = environ.get(name) or None  # set but empty, as a ConfigMap may have it: not set
    if _is_secret(item) and (path := environ.get(f"{name}_FILE")):
        if text:
            raise SettingsError(f"{name} and {name}_FILE are both set: choose one")
        try:
            text = Path(path).read_text().strip()
        except (OSError, UnicodeDecodeError) as error:
            raise SettingsError(f"{name}_FILE: {error}") from error
    if text is None:
        text = item.metadata["text"]
    try:
        return item.metadata["read"](text.strip())
    except ValueError as error:
        shown = "" if _is_secret(item) else f"={text!r}"
        raise SettingsError(f"{name}{shown}: {error}") from error


def _unknown(environ: Mapping[str, str]) -> tuple[str, ...]:
    known = {env_name(item) for item in _declared()}
    known |= {f"{env_name(item)}_FILE" for item in _declared() if _is_secret(item)}
    strange = (n for n in environ if n.startswith(PREFIX) and n not in known and not _SERVICE_LINK.fullmatch(n))
    return tuple(_suggest(name, known) for name in sorted(strange))


def _suggest(name: str, known: set[str]) -> str:
    nearest = difflib.get_close_matches(name, sorted(known), n=1)
    return f"{name} is no setting" + (f"; did you mean {nearest[0]}?" if nearest else "")


def _shown(value: object) -> str:
    if isinstance(value, RedisUrl):
        return value.shown
    if isinstance(value, Secret):
        return "***" if value else ""
    if isinstance(value, tuple) and not isinstance(value, Listen | KvEvents):
        return ",".join(_shown(item) for item in value)
    if isinstance(value, KvEvents):
        return value.mode if value.events is None else f"{value.events},replay={value.replay}"
    return "" if value is None else str(value)
