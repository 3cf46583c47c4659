"""Keys as users write them; what is wrong is said without telling a key."""

from __future__ import annotations

import hashlib
import traceback
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.client_keys import ClientKey, hashed, parse_client_keys, read_client_keys

SECRET = "sk-mellon"
HEX = hashlib.sha256(SECRET.encode()).hexdigest()
UNNAMED = f"key-{HEX[:8]}"


def key(name: str, text: str = SECRET, receipt: bool | None = None) -> ClientKey:
    return ClientKey(name, hashlib.sha256(text.encode()).digest(), receipt)


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("", []),
        ("# only words\n\n", []),
        (SECRET, [key(UNNAMED)]),
        (f"sha256:{HEX}", [key(UNNAMED)]),
        (f"team-a={SECRET}", [key("team-a")]),
        (f"team-a=sha256:{HEX.upper()}", [key("team-a")]),
        ("a=x=mellon==", [key("a", "x=mellon==")]),
        ("a=mellon-1,a=mellon-2", [key("a", "mellon-1"), key("a", "mellon-2")]),
        ("a=mellon-a, b=mellon-b\tc=mellon-c\r\nd=mellon-d\n", [key(name, f"mellon-{name}") for name in "abcd"]),
        ("# keys\na=mellon-1 # the first\n#b=mellon-2\n,c=-mellon-3", [key("a", "mellon-1"), key("c", "-mellon-3")]),
        (f"# keys\n- {SECRET}\n- b=mellon-2\n", [key(UNNAMED), key("b", "mellon-2")]),
        (f"---\n- name: a\n  key: {SECRET}\n", [key("a")]),
        (f'["{SECRET}", "b=mellon-2"]', [key(UNNAMED), key("b", "mellon-2")]),
        (f"- name: a\n  key: {SECRET}\n  receipt: all\n", [key("a", receipt=True)]),
        (f"- {{sha256: {HEX}, receipt: request_id}}", [key(UNNAMED, receipt=False)]),
        (f"- {{sha256: 'sha256:{HEX}', name: x@y.org}}", [key("x@y.org")]),
        ("[{name: a, key: 12345678}, {name: b, key: 'two,three#:'}]", [key("a", "12345678"), key("b", "two,three#:")]),
    ],
)
def test_what_is_read(text: str, keys: list[ClientKey]) -> None:
    """Lists with commas, spaces or lines, and YAML; a digest is as good as its key."""
    assert list(parse_client_keys(text)) == keys


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (f"{SECRET}=", "key 1: a key that ends in = needs a name"),
        (f"mellon-1, {SECRET}==", "key 2: a key that ends in = needs a name"),
        (f"={SECRET}", "key 1: a name is up to 64"),
        (f"a+b={SECRET}", "key 1: a name is up to 64"),
        (f"a=sha256:{HEX[:-1]}", "64 hex digits"),
        (f"sha256:{SECRET}", "64 hex digits"),
        (f"{SECRET}\N{SNOWMAN}", "a key without a name is 8 or more"),
        (f"-{SECRET}", "must be a list"),
        (f"a=mellon-1 -{SECRET}", "key 2: a key without a name is 8 or more"),
        (f"a={SECRET}!", "a key is 8 or more letters"),
        ("a=shorter", "a key is 8 or more letters"),
        ("- {key: shorter}", "a key is 8 or more visible"),
        (f"a={SECRET}, b=sha256:{HEX}", "key 2 is the same as key 1"),
        (f"- {SECRET}\n- {{{SECRET}", "is no YAML, line "),
        (f"- {SECRET}\n- \x01", "is no YAML"),
        (f"- a: {SECRET}\n", "must have 'key' or 'sha256'"),
        (f"- {{key: {SECRET}, sha256: {HEX}}}", "must have 'key' or 'sha256'"),
        (f"- {{key: {SECRET}, secret: x}}", "nothing else"),
        (f"- {{key: [{SECRET}]}}", "must have text only"),
        (f"- {{key: {SECRET}, receipt: some}}", "'receipt' must be all or request_id"),
        (f"- {{key: {SECRET}, name: ''}}", "a name is up to 64"),
        (f"- {{key: ''}}\n- {SECRET}", "key 1: a key is 8 or more visible ASCII"),
        (f"- [{SECRET}]", "must be text, or a mapping"),
        (f"- &x {SECRET}\n...\n- {SECRET}\n", "is no YAML"),
    ],
)
def test_what_is_refused(text: str, fault: str) -> None:
    """Which entry, and why; never what was written there."""
    with pytest.raises(ValueError, match=fault) as refused:
        parse_client_keys(text)
    assert SECRET not in "".join(traceback.format_exception(refused.value))


LISTED = f"- name: a\n  key: {SECRET}\n"


@pytest.mark.parametrize(
    "text",
    [
        f"keys:\n{LISTED}",
        f"# keys\nkeys: \n- {SECRET}",
        f"---\nkeys:\n{LISTED}",
        f"{LISTED}---\n{LISTED}",
        f"%YAML 1.2\n---\nkeys:\n{LISTED}",
        f"team-a: {SECRET}\n",
        f"name: a\nkey: {SECRET}\n",
        f"---\n{SECRET}\n",
        f'"{SECRET}"',
        f"'{SECRET}'",
        f"a='{SECRET}'",
        f'{{"keys": ["{SECRET}"]}}',
        f"{{{SECRET}: a}}",
        f"!!str {SECRET}",
        f"| \n  {SECRET}",
        f"[keys]\na = {SECRET}\n",
        f"export KEYS={SECRET}",
        "<html><body><h1>503 Service Unavailable</h1></body></html>",
        "<!DOCTYPE html>\n<title>Sign in to continue</title>",
        "-----BEGIN CERTIFICATE-----\nMIIBszCCAVmgAwIBAgIUQ8\n-----END CERTIFICATE-----\n",
        "null",
        "~",
        "{}",
        "---",
        "---\n# none\n",
        "[" * 5000,
    ],
)
def test_what_is_another_kind_of_file_opens_nothing(text: str) -> None:
    """Its punctuation and field names are no keys: all of it is refused."""
    with pytest.raises(ValueError, match=r"must be a list|is no YAML|^key \d+: a ") as refused:
        parse_client_keys(text)
    assert SECRET not in str(refused.value)


@given(st.text(max_size=40) | st.text(alphabet="ab:-=#, \n[]{}\"'<>", max_size=40))
def test_no_key_is_shorter_than_8_characters(text: str) -> None:
    """Whatever the file is."""
    try:
        keys = {key.digest for key in parse_client_keys(text)}
    except ValueError:
        return
    words = text.replace(",", " ").split()
    assert not keys & {hashlib.sha256(word[:size].encode()).digest() for word in words for size in range(8)}


def test_a_key_is_not_kept() -> None:
    """Only its digest, and not even that is shown."""
    (kept,) = parse_client_keys(f"a={SECRET}")
    assert SECRET not in repr(kept)
    assert HEX not in repr(kept)
    assert str(kept.digest) not in repr(kept)
    assert hashed(SECRET) == f"sha256:{HEX}"
    with pytest.raises(ValueError, match="visible ASCII"):
        hashed("two words")


def test_a_file_is_named_in_its_faults(tmp_path: Path) -> None:
    """Whether it cannot be read, is no text or has a wrong key."""
    path = tmp_path / "keys"
    with pytest.raises(ValueError, match=f"{path}: No such file"):
        read_client_keys(path)
    path.write_bytes(SECRET.encode() + b"\xff")
    with pytest.raises(ValueError, match=f"{path}: is not UTF-8") as refused:
        read_client_keys(path)
    assert SECRET not in str(refused.value)
    path.write_text("a=")
    with pytest.raises(ValueError, match=f"{path}: key 1: "):
        read_client_keys(path)
    path.write_bytes(b"\xef\xbb\xbfa=sk-mellon\r\n")
    assert read_client_keys(path) == (key("a"),)


@given(st.text(max_size=60) | st.text(alphabet="ab=,# \n-[]{}:'\"&*!sha256", max_size=60))
def test_any_text_is_keys_or_a_refusal(text: str) -> None:
    """Nothing else happens, and what is read has a name and a digest."""
    try:
        keys = parse_client_keys(text)
    except ValueError:
        return
    assert all(key.name and len(key.digest) == 32 for key in keys)


@given(st.from_regex(r"[A-Za-z0-9._~+/=-]{8,}", fullmatch=True))
def test_a_named_key_is_read_as_it_is_written(text: str) -> None:
    """Whatever bearer tokens are made of, a lone row of = apart."""
    if text.strip("="):
        assert parse_client_keys(f"n={text}") == (key("n", text),)
