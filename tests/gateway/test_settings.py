"""Settings come from the environment, checked, with names that explain themselves in errors."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.settings import KvEvents, Listen, Settings, SettingsError
from scripts.settings_table import README, with_table


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
        ("API_KEYS", "a, b\nc", "api_keys", ("a", "b", "c")),
        ("HOLD_HEAD", "off", "hold_head", False),
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
        ("API_KEYS_FILE", "/nowhere", "PREFIXWAY_API_KEYS_FILE: .*No such file"),
    ],
)
def test_a_wrong_value_names_the_setting_and_what_it_may_be(name: str, text: str, fault: str) -> None:
    """The start stops with a sentence that mends it."""
    with pytest.raises(SettingsError, match=fault):
        Settings.from_env({f"PREFIXWAY_{name}": text})


def test_secrets_come_from_files_and_are_never_shown(tmp_path: Path) -> None:
    """A ``_FILE`` twin is read; the effective settings mask it; both at once is an error."""
    path = tmp_path / "key"
    path.write_text("top-secret\n")
    settings = Settings.from_env({"PREFIXWAY_REPLICA_API_KEY_FILE": str(path), "PREFIXWAY_API_KEYS": "k1,k2"})

    assert settings.replica_api_key == "top-secret"
    assert not settings.shows_receipt
    assert settings.effective()["PREFIXWAY_API_KEYS"] == "***,***"
    assert "top-secret" not in repr(settings)
    assert "top-secret" not in str(settings.effective())
    assert "k1" not in repr(settings)
    with pytest.raises(SettingsError, match="both set"):
        Settings.from_env({"PREFIXWAY_REPLICA_API_KEY_FILE": str(path), "PREFIXWAY_REPLICA_API_KEY": "x"})


def test_unknown_names_are_reported_with_the_nearest_known_one() -> None:
    """A warning by default, an error when strict."""
    environ = {"PREFIXWAY_STRATEGI": "kv_aware", "OTHER": "1"}

    assert Settings.from_env(environ).unknown == ("PREFIXWAY_STRATEGI is no setting; did you mean PREFIXWAY_STRATEGY?",)
    with pytest.raises(SettingsError, match="did you mean PREFIXWAY_STRATEGY"):
        Settings.from_env({**environ, "PREFIXWAY_STRICT_ENV": "true"})


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
    text = README.read_text()

    assert with_table(text) == text
