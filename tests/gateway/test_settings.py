"""Settings come from the environment, checked, with names that explain themselves in errors."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from gateway.client_keys import parse_client_keys
from gateway.redis_url import RedisTarget
from gateway.setting_field import SettingsError
from gateway.setting_values import KvEvents, Listen
from gateway.settings import Settings, check_redis_client
from scripts.settings_table import PAGE


def test_an_empty_environment_gives_the_defaults() -> None:
    """Nothing is required."""
    settings = Settings.from_env({})

    assert settings.listen == Listen("0.0.0.0", 8080)
    assert settings.strategy == "kv_aware"
    assert settings.kv_events == KvEvents("auto")
    assert settings.shows_receipt


@pytest.mark.parametrize(
    ("name", "text", "field", "value"),
    [
        ("LISTEN", "[::1]:9000", "listen", Listen("::1", 9000)),
        ("STRATEGY", "PrefixAware", "strategy", "prefix_aware"),
        ("STRATEGY", "kvaware", "strategy", "kv_aware"),
        ("STRATEGY", "round-robin", "strategy", "round_robin"),
        ("STRATEGY", "", "strategy", "kv_aware"),
        ("STRATEGY_OPTIONS", '{"cached_weight": 4}', "strategy_options", {"cached_weight": 4}),
        ("API_KEYS", "mellon-a, mellon-b\nn=mellon-c", "api_keys", parse_client_keys("mellon-a mellon-b n=mellon-c")),
        ("API_KEYS_FILE", "", "api_keys_file", None),
        ("HOLD_HEAD", "off", "hold_head", False),
        ("WORKERS", "1", "workers", 1),
        ("DRAIN_S", "0", "drain_s", 0.0),
        ("INDEX_BUDGET_MS", "2.5", "index_budget_ms", 2.5),
        ("REPLICAS_FILE", "/etc/replicas.yaml", "replicas_file", Path("/etc/replicas.yaml")),
        ("SESSION_HEADERS", "X-Session-ID, x-user", "session_headers", ("x-session-id", "x-user")),
        (
            "KV_EVENTS",
            "tcp://{host}:5557,replay=tcp://{host}:5657",
            "kv_events",
            KvEvents("fixed", "tcp://{host}:5557", "tcp://{host}:5657"),
        ),
    ],
)
def test_values_are_read(name: str, text: str, field: str, value: object) -> None:
    """Each kind of setting is read as its documentation says."""
    assert getattr(Settings.from_env({f"PREFIXWAY_{name}": text}), field) == value


@pytest.mark.parametrize(
    ("name", "text", "fault"),
    [
        ("LISTEN", "8080", "PREFIXWAY_LISTEN='8080': must be host:port"),
        ("LISTEN", "a:99999", "must be host:port"),
        ("STRATEGY", "fastest", "no strategy is named 'fastest'; there are kv_aware"),
        ("STRATEGY_OPTIONS", "[1]", "must be a JSON object"),
        ("STRATEGY_OPTIONS", '{"sed": 1}', "PREFIXWAY_STRATEGY_OPTIONS: kv_aware has no option 'sed'"),
        ("KV_EVENTS", "5557", r"must be auto, off, or tcp://\{host\}:5557"),
        ("HOLD_HEAD", "maybe", "must be true or false"),
        ("CONNECT_TIMEOUT_S", "0", "must be a number above 0"),
        ("MAX_PROMPT_CHARS", "1.5", "must be a whole number above 0"),
        ("RECEIPT", "some", "must be one of auto, all, request_id"),
        ("ADMIN_LISTEN", "0.0.0.0:1", "set PREFIXWAY_ADMIN_TOKEN"),
        ("REDIS_URL", "redis://:sesame@a,b", "PREFIXWAY_REDIS_URL: must have one host"),
        ("REDIS_URL", "localhost:6379", "PREFIXWAY_REDIS_URL: must begin with one of redis://"),
        ("INDEX", "redis", "PREFIXWAY_INDEX=redis .* need PREFIXWAY_REDIS_URL"),
        ("WORKERS", "2", "PREFIXWAY_WORKERS above 1 need PREFIXWAY_REDIS_URL"),
        ("INDEXER", "outside", "PREFIXWAY_INDEXER=outside needs PREFIXWAY_REDIS_URL"),
        ("REDIS_TIMEOUT_S", "never", "must be a number above 0"),
        ("API_KEYS_FILE", "/nowhere", "PREFIXWAY_API_KEYS_FILE: .*No such file"),
        ("API_KEYS", "null", "PREFIXWAY_API_KEYS: key 1: a key without a name is 8 or more"),
        ("ALLOW_ROUTES", "reset_prefix_cache", "'reset_prefix_cache' is no path like /reset_prefix_cache"),
        ("CORS_ORIGINS", "chat.example.com", "is no origin like https://chat.example.com"),
        ("SESSION_HEADERS", "x-session id", "'x-session id' is no header's name"),
        ("MODEL_ALIASES", "a=b,b=m", "'a' stands for 'b', which is an alias itself"),
        ("WORKERS", "257", "must be a whole number from 1 to 256"),
        ("DRAIN_S", "-1", "must be a number, 0 or more"),
        ("API_KEYS", "# all gone", "PREFIXWAY_API_KEYS: has no key"),
        ("API_KEYS", "mellon-1, n=", "PREFIXWAY_API_KEYS: key 2: a key that ends in = needs a name"),
    ],
)
def test_a_wrong_value_names_the_setting_and_what_it_may_be(name: str, text: str, fault: str) -> None:
    """The start stops with a sentence that mends it."""
    with pytest.raises(SettingsError, match=fault):
        Settings.from_env({f"PREFIXWAY_{name}": text})


def test_a_body_that_is_allowed_has_room_to_come_in() -> None:
    """By itself, at least."""
    assert Settings.from_env({"PREFIXWAY_MAX_BODY_MB": "1024"}).max_uploads_mb == 1024
    with pytest.raises(SettingsError, match="PREFIXWAY_MAX_UPLOADS_MB is below PREFIXWAY_MAX_BODY_MB"):
        Settings.from_env({"PREFIXWAY_MAX_BODY_MB": "1025"})


def test_secrets_come_from_files_and_are_never_shown(tmp_path: Path) -> None:
    """A ``_FILE`` twin is read; the effective settings mask it; both at once is an error."""
    path = tmp_path / "key"
    path.write_text("top-secret\n")
    settings = Settings.from_env(
        {"PREFIXWAY_REPLICA_API_KEY_FILE": str(path), "PREFIXWAY_API_KEYS": "mellon-1,mellon-2"}
    )

    assert settings.replica_api_key == "top-secret"
    assert not settings.shows_receipt
    assert settings.effective()["PREFIXWAY_API_KEYS"] == "***,***"
    assert "top-secret" not in repr(settings)
    assert "top-secret" not in str(settings.effective())
    assert "mellon" not in repr(settings)
    with pytest.raises(SettingsError, match="both set"):
        Settings.from_env({"PREFIXWAY_REPLICA_API_KEY_FILE": str(path), "PREFIXWAY_REPLICA_API_KEY": "x"})


def test_keys_in_a_file_are_checked_at_the_start_and_its_place_is_kept(tmp_path: Path) -> None:
    """A file without keys still means that a key is needed; a wrong one stops the start; so do both at once."""
    path = tmp_path / "keys"
    path.write_text("# none yet\n")
    environ = {"PREFIXWAY_API_KEYS_FILE": str(path)}
    settings = Settings.from_env(environ)

    assert settings.api_keys_file == path
    assert settings.wants_keys
    assert not settings.shows_receipt
    assert not Settings.from_env({}).wants_keys
    with pytest.raises(SettingsError, match="both set"):
        Settings.from_env({**environ, "PREFIXWAY_API_KEYS": "mellon-1"})
    path.write_text("mellon-1\nname=\n")
    with pytest.raises(SettingsError, match=r"PREFIXWAY_API_KEYS_FILE: .*keys: key 2: a key that ends in ="):
        Settings.from_env(environ)


@pytest.mark.parametrize("name", ["REPLICA_API_KEY", "ADMIN_TOKEN"])
@pytest.mark.parametrize("text", ["mellon\N{SNOWMAN}", "mel\nlon", "mel\x00lon", "mel lon"])
def test_what_no_header_carries_is_no_key(name: str, text: str) -> None:
    """Said at the start, and without telling it."""
    with pytest.raises(SettingsError, match=f"PREFIXWAY_{name}: must be visible ASCII") as refused:
        Settings.from_env({f"PREFIXWAY_{name}": text})
    assert text not in str(refused.value)


REDIS = "rediss://gateway:sesame@cache:7000/1?ssl_ca_certs=/ca.pem"


def test_a_redis_url_is_shown_without_its_password(tmp_path: Path) -> None:
    """Its place is what one wants to see; the file twin is read as for every secret."""
    path = tmp_path / "url"
    path.write_text(f"{REDIS}\n")
    settings = Settings.from_env({"PREFIXWAY_REDIS_URL_FILE": str(path)})

    assert settings.redis == RedisTarget.parse(REDIS)
    assert settings.effective()["PREFIXWAY_REDIS_URL"] == "rediss://gateway@cache:7000/1"
    assert "sesame" not in repr(settings)


def test_a_redis_password_may_stand_apart() -> None:
    """In its own setting; one in the URL as well is an error that shows neither."""
    environ = {"PREFIXWAY_REDIS_URL": "redis://gateway@cache", "PREFIXWAY_REDIS_PASSWORD": "open"}
    settings = Settings.from_env(environ)

    assert settings.redis is not None
    assert settings.redis.password == "open"
    assert "open" not in repr(settings)
    assert settings.effective()["PREFIXWAY_REDIS_PASSWORD"] == "***"
    with pytest.raises(SettingsError, match="choose one") as caught:
        Settings.from_env({**environ, "PREFIXWAY_REDIS_URL": REDIS})
    assert "sesame" not in str(caught.value)


@pytest.mark.parametrize(
    ("environ", "uses_redis", "shares_index"),
    [
        ({}, False, False),
        ({"PREFIXWAY_REDIS_URL": REDIS}, True, True),
        ({"PREFIXWAY_REDIS_URL": REDIS, "PREFIXWAY_INDEX": "redis", "PREFIXWAY_INDEXER": "outside"}, True, True),
        ({"PREFIXWAY_REDIS_URL": REDIS, "PREFIXWAY_INDEX": "memory", "PREFIXWAY_WORKERS": "3"}, True, False),
    ],
)
def test_what_a_redis_is_used_for(environ: dict[str, str], uses_redis: bool, shares_index: bool) -> None:
    """A URL is enough; the index may stay in memory all the same."""
    settings = Settings.from_env(environ)

    assert settings.uses_redis is uses_redis
    assert settings.shares_index is shares_index


def test_an_indexer_outside_needs_the_index_in_redis() -> None:
    """Else nobody would read what it writes."""
    environ = {"PREFIXWAY_REDIS_URL": REDIS, "PREFIXWAY_INDEX": "memory", "PREFIXWAY_INDEXER": "outside"}

    with pytest.raises(SettingsError, match="PREFIXWAY_INDEXER=outside"):
        Settings.from_env(environ)


def test_a_redis_client_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """With what installs it; without a URL nobody needs it."""
    check_redis_client(Settings.from_env({"PREFIXWAY_REDIS_URL": REDIS}))
    monkeypatch.setitem(sys.modules, "hiredis", None)

    check_redis_client(Settings.from_env({}))
    with pytest.raises(SettingsError, match=r"needs hiredis: pip install 'prefixway\[redis\]'"):
        check_redis_client(Settings.from_env({"PREFIXWAY_REDIS_URL": REDIS}))


def test_unknown_names_are_reported_with_the_nearest_known_one() -> None:
    """A warning by default, an error when strict."""
    environ = {"PREFIXWAY_STRATEGI": "kv_aware", "OTHER": "1"}

    assert Settings.from_env(environ).unknown == ("PREFIXWAY_STRATEGI is no setting; did you mean PREFIXWAY_STRATEGY?",)
    with pytest.raises(SettingsError, match="did you mean PREFIXWAY_STRATEGY"):
        Settings.from_env({**environ, "PREFIXWAY_STRICT_ENV": "true"})


def test_a_name_like_none_of_ours_gets_no_suggestion() -> None:
    """The prefix alone is no likeness."""
    assert Settings.from_env({"PREFIXWAY_COLOUR": "red"}).unknown == ("PREFIXWAY_COLOUR is no setting",)


@pytest.mark.parametrize(
    "name",
    [
        "PREFIXWAY_PORT",
        "PREFIXWAY_SERVICE_HOST",
        "PREFIXWAY_SERVICE_PORT",
        "PREFIXWAY_SERVICE_PORT_HTTP",
        "PREFIXWAY_PORT_8080_TCP",
        "PREFIXWAY_PORT_8080_TCP_ADDR",
        "PREFIXWAY_VALKEY_SERVICE_HOST",
        "PREFIXWAY_VALKEY_PORT_6379_TCP_PROTO",
    ],
)
def test_what_kubernetes_injects_is_ignored(name: str) -> None:
    """A Service named prefixway, or prefixway-valkey, must not stop the start."""
    assert Settings.from_env({name: "tcp://10.0.0.1:80", "PREFIXWAY_STRICT_ENV": "true"}).unknown == ()


def test_no_setting_ends_like_a_service_link() -> None:
    """Else Kubernetes could overwrite it."""
    assert not [name for name in Settings.from_env({}).effective() if name.endswith(("_PORT", "_HOST"))]


def test_the_readme_has_the_current_table() -> None:
    """`python scripts/settings_table.py` writes it."""
    assert PAGE.fresh() == PAGE.text()
