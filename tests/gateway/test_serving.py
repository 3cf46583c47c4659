"""``prefixway serve`` alone, with workers, and as one. What each does under load is in tests/end_to_end."""

from __future__ import annotations

import pytest

from gateway.serving import serve
from gateway.setting_field import SettingsError

LOOPBACK = {f"PREFIXWAY_{port}LISTEN": "127.0.0.1:0" for port in ("", "METRICS_", "ADMIN_")}


def test_several_workers_need_redis() -> None:
    """Given on the command line too, and it goes before the setting."""
    with pytest.raises(SettingsError, match="PREFIXWAY_REDIS_URL"):
        serve({**LOOPBACK, "PREFIXWAY_WORKERS": "1"}, workers=2)


def test_no_worker_at_all_is_a_wrong_number() -> None:
    """As in the environment."""
    with pytest.raises(SettingsError, match="PREFIXWAY_WORKERS='0': must be a whole number from 1 to 256"):
        serve(LOOPBACK, workers=0)


def test_a_worker_must_know_what_it_inherits() -> None:
    """Nobody starts one by hand."""
    with pytest.raises(ValueError, match="must be slot:public:metrics:admin:channel"):
        serve(LOOPBACK, worker="1:2")
