"""One setting: a field with its default, its reader and its line of documentation; and how it is read and shown."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from dataclasses import Field, field, fields
from pathlib import Path
from typing import Any

from gateway.client_keys import ClientKey
from gateway.setting_values import (
    Finder,
    KvEvents,
    Listen,
    RedisUrl,
    Secret,
    read_api_keys,
    read_credential,
    read_redis_url,
    read_text,
)

PREFIX = "PREFIXWAY_"

#: What Kubernetes injects for a Service whose name begins with "prefixway": never ours.
_SERVICE_LINK = re.compile(r"PREFIXWAY_(.+_)?(SERVICE_HOST|SERVICE_PORT(_.+)?|PORT(_\d+_(TCP|UDP|SCTP)(_.+)?)?)")


class SettingsError(ValueError):
    """A setting is wrong; the message names it and says what it may be."""


def setting(default: str, doc: str, read: Callable[[str], Any] = read_text, *, unit: str = "") -> Any:
    """A field of the settings: ``default`` as a user would write it, and what it means."""
    return field(
        default_factory=lambda: read(default),
        metadata={"text": default, "doc": doc, "read": read, "unit": unit},
    )


def table(settings: type) -> str:
    """All of them in Markdown."""
    rows = ["| setting | default | |", "|---|---|---|"]
    for item in declared(settings):
        default = f"`{item.metadata['text']}`" if item.metadata["text"] else ""
        unit = f" {item.metadata['unit']}" if item.metadata["unit"] else ""
        twin = " Also as `_FILE`." if _has_twin(item) else ""
        rows.append(f"| `{env_name(item)}` | {default}{unit} | {item.metadata['doc']}{twin} |")
    return "\n".join(rows)


def in_cluster(environ: Mapping[str, str]) -> str:
    """Where a pod finds its cluster's API, as Kubernetes tells every container; "": this is none."""
    host, port = environ.get("KUBERNETES_SERVICE_HOST", ""), environ.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        return ""
    return f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"


def env_name(item: Field[Any]) -> str:
    """A setting's name in the environment."""
    return PREFIX + item.name.upper()


def declared(settings: type) -> list[Field[Any]]:
    """The fields of ``settings`` that are settings."""
    return [item for item in fields(settings) if "read" in item.metadata]


def _is_secret(item: Field[Any]) -> bool:
    return _has_twin(item) or item.metadata["read"] is read_api_keys


def _has_twin(item: Field[Any]) -> bool:
    """Whether it may be given as the path of a file instead. That of the API keys is a setting by itself."""
    return item.metadata["read"] in (Secret, read_credential, read_redis_url)


def read_value(item: Field[Any], environ: Mapping[str, str]) -> Any:
    """Its value by the environment, or its default. Raises :class:`SettingsError`."""
    name = env_name(item)
    text = environ.get(name) or None  # set but empty, as a ConfigMap may have it: not set
    if _has_twin(item) and (path := environ.get(f"{name}_FILE")):
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
        given = "" if _is_secret(item) else f"={text!r}"
        raise SettingsError(f"{name}{given}: {error}") from error


def unknown_names(settings: type, environ: Mapping[str, str]) -> tuple[str, ...]:
    """What looks like one of ours and is none, each as a sentence."""
    known = {env_name(item) for item in declared(settings)}
    known |= {f"{env_name(item)}_FILE" for item in declared(settings) if _has_twin(item)}
    strange = (n for n in environ if n.startswith(PREFIX) and n not in known and not _SERVICE_LINK.fullmatch(n))
    return tuple(_suggest(name, known) for name in sorted(strange))


def _suggest(name: str, known: set[str]) -> str:
    # Without the prefix, which all have in common: what is nothing like ours is not like all of ours
    nearest = difflib.get_close_matches(name.removeprefix(PREFIX), [k.removeprefix(PREFIX) for k in sorted(known)], n=1)
    return f"{name} is no setting" + (f"; did you mean {PREFIX}{nearest[0]}?" if nearest else "")


def shown(value: object) -> str:
    """As text; secrets masked."""
    if isinstance(value, RedisUrl):
        return value.shown
    if isinstance(value, Secret | ClientKey):
        return "***" if value else ""
    if isinstance(value, tuple) and not isinstance(value, Listen | KvEvents | Finder):
        return ",".join(shown(item) for item in value)
    if isinstance(value, KvEvents):
        return value.mode if value.events is None else f"{value.events},replay={value.replay}"
    if isinstance(value, Mapping):
        return ",".join(f"{name}={item}" for name, item in value.items())
    return "" if value is None else str(value)
