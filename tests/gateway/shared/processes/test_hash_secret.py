"""The hash secret: a value, a name that does not give it away, and whoever must know of a change."""

from __future__ import annotations

from gateway.shared.processes.hash_secret import HashSecret


def test_the_id_compares_secrets_without_telling_them() -> None:
    """Equal for equal ones, different for others, and neither contains the value."""
    secret = HashSecret(b"open sesame")

    assert secret.id == HashSecret(b"open sesame").id != HashSecret(b"open sesame!").id
    assert len(secret.id) == 8
    assert "sesame" not in repr(secret)
    assert secret.value.hex() not in repr(secret)


def test_random_ones_differ() -> None:
    """16 bytes."""
    one, two = HashSecret.random(), HashSecret.random()

    assert len(one.value) == len(two.value) == 16
    assert one.value != two.value


def test_a_change_is_told_once_and_in_order() -> None:
    """After it happened; the same value again is no change."""
    secret = HashSecret(b"old")
    heard: list[tuple[str, bytes, str]] = []
    secret.listen(lambda: heard.append(("first", secret.value, secret.id)))
    secret.listen(lambda: heard.append(("second", secret.value, secret.id)))

    secret.use(b"old")
    secret.use(b"new")
    secret.use(b"new")

    id_ = HashSecret(b"new").id
    assert heard == [("first", b"new", id_), ("second", b"new", id_)]
