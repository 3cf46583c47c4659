"""ClientKey: a key that clients may send, kept as its digest; and how keys are written in a setting or a file.

A list is entries between commas, spaces and line ends; ``#`` where an entry could begin: the rest of the line is a
comment.
An entry is ``key``, ``name=key``, ``name=sha256:<64 hex digits>`` or ``sha256:<64 hex digits>``. The first ``=`` ends
the name, so a key with one in it needs a name. A text that begins as YAML does (``---``, ``-``, ``[``, ``word:``, a
quote, ...) must be YAML, and a list: of such entries, or of mappings with ``key`` or ``sha256``, and if wanted ``name``
and ``receipt``.

Keys are 8 characters or more, of those that bearer tokens are made of (RFC 6750, 2.1). So no other kind of file that is
mistaken for this one makes keys of its punctuation and field names.

No error here tells what was written: it may be a key.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import yaml

_HASHED = "sha256:"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@/-]{0,63}")
_VISIBLE = re.compile(r"[!-~]{8,}")  # ASCII: what a header carries whatever lies between
_TOKEN = re.compile(r"[A-Za-z0-9._~+/=-]{8,}")
_BARE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._~+/-]{7,}")
_FAULTS = {
    _VISIBLE: "a key is 8 or more visible ASCII characters",
    _TOKEN: "a key is 8 or more letters, digits and ._~+/=- (for others: a YAML mapping, or its sha256)",
    _BARE: "a key without a name is 8 or more letters, digits and ._~+/-, and begins with a letter or digit",
}
_DIGEST = re.compile(r"[0-9A-Fa-f]{64}")
_YAML = re.compile(r"[-\[\]{}\"'<>%&*!|?@`:]|[^\s:,=#]+:(?:\s|$)")  # how YAML begins, and HTML, and JSON; keys never do
_COMMENT = re.compile(r"(?:^|(?<=[\s,]))#.*", re.MULTILINE)
_RECEIPTS = {"all": True, "request_id": False}


@dataclass(frozen=True, slots=True)
class ClientKey:
    """``receipt``: whether its owner sees all of the receipt; ``None``: as the setting says for everybody."""

    name: str  # goes into the access log
    digest: bytes = field(repr=False)  # SHA-256 of the key
    receipt: bool | None = None


def hashed(key: str) -> str:
    """How to write a key without telling it. Raises ``ValueError`` for what cannot be one."""
    return _HASHED + _digest(key).hex()


def parse_client_keys(text: str) -> tuple[ClientKey, ...]:
    """All keys of a setting or a file. Raises ``ValueError`` that says which entry is wrong, and why."""
    bare = _COMMENT.sub("", text).lstrip()
    entries = _yaml_entries(text) if _YAML.match(bare) else re.split(r"[,\s]+", bare)
    keys = []
    for number, entry in enumerate((entry for entry in entries if entry), 1):
        try:
            keys.append(_parsed(entry))
        except ValueError as error:
            raise ValueError(f"key {number}: {error}") from None
    return _different(keys)


def read_client_keys(path: Path) -> tuple[ClientKey, ...]:
    """All keys of a file; none if it is empty. Raises ``ValueError`` that names the file."""
    try:
        return parse_client_keys(path.read_bytes().decode("utf-8-sig"))
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError:
        raise ValueError(f"{path}: is not UTF-8") from None
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _yaml_entries(text: str) -> list[object]:
    try:
        content = yaml.load(text, yaml.BaseLoader)  # noqa: S506 - safe, too: every scalar stays text
    except yaml.MarkedYAMLError as error:
        where = f", line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise ValueError(f"is no YAML{where}") from None
    except (yaml.YAMLError, RecursionError):
        raise ValueError("is no YAML") from None
    if not isinstance(content, list):
        raise ValueError("must be a list: in YAML with - in front of each entry, else of name=key or key")
    return content


def _parsed(entry: object) -> ClientKey:
    if isinstance(entry, str):
        return _entry(entry)
    if isinstance(entry, Mapping):
        return _mapping(entry)
    raise ValueError("must be text, or a mapping with 'key' or 'sha256'")


def _entry(text: str) -> ClientKey:
    """``key`` or ``name=key``, either of them as a digest or not."""
    name, separator, key = text.partition("=")
    if not separator:
        return _key("", text, _BARE)
    if not key.strip("="):  # the end of a bare key in base64, or a name whose key was forgotten
        raise ValueError("a key that ends in = needs a name, like name=key, and a name needs a key")
    return _key(name, key, _TOKEN, named=True)


def _mapping(entry: Mapping[object, object]) -> ClientKey:
    if not entry.keys() <= {"name", "key", "sha256", "receipt"} or ("key" in entry) == ("sha256" in entry):
        raise ValueError("must have 'key' or 'sha256', and may have 'name' and 'receipt', nothing else")
    if not all(isinstance(value, str) for value in entry.values()):
        raise ValueError("must have text only")
    receipt = entry.get("receipt")
    if receipt is not None and receipt not in _RECEIPTS:
        raise ValueError("'receipt' must be all or request_id")
    key = str(entry["key"]) if "key" in entry else _HASHED + str(entry["sha256"]).removeprefix(_HASHED)
    named = _key(str(entry.get("name", "")), key, _VISIBLE, named="name" in entry)
    return ClientKey(named.name, named.digest, None if receipt is None else _RECEIPTS[str(receipt)])


def _key(name: str, key: str, allowed: re.Pattern[str], *, named: bool = False) -> ClientKey:
    if named and not _NAME.fullmatch(name):
        raise ValueError(
            "a name is up to 64 letters, digits and ._@/- (a key that contains = needs one, like name=key)"
        )
    digest = _digest_of_hex(key.removeprefix(_HASHED)) if key.startswith(_HASHED) else _digest(key, allowed)
    return ClientKey(name or f"key-{digest.hex()[:8]}", digest)


def _digest(key: str, allowed: re.Pattern[str] = _VISIBLE) -> bytes:
    if not allowed.fullmatch(key):
        raise ValueError(_FAULTS[allowed])
    return hashlib.sha256(key.encode()).digest()


def _digest_of_hex(text: str) -> bytes:
    if not _DIGEST.fullmatch(text):
        raise ValueError("sha256: must be followed by 64 hex digits")
    return bytes.fromhex(text)


def _different(keys: list[ClientKey]) -> tuple[ClientKey, ...]:
    """One name may have several keys, for the time when one replaces another; one key has one owner."""
    places: dict[bytes, int] = {}
    for number, key in enumerate(keys, 1):
        first = places.setdefault(key.digest, number)
        if first != number:
            raise ValueError(f"key {number} is the same as key {first}")
    return tuple(keys)
