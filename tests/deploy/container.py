"""Commands run as a container engine would run them, without one, as far as Linux lets root do that.

A mount namespace of their own in which the root is read-only, ``/tmp`` new and empty, and chosen files of ``/etc`` are
others; another user, no capability, no way to new ones. Not: an image's file system, a network of its own, limits.
"""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

#: Sets aside what must stay, covers /tmp and the folders that only root may enter, and puts back; the rest read-only.
_SCRIPT = """
set -e
mount --make-rprivate /
for file in $FILES; do mount --bind "${file#*:}" "${file%%:*}"; done
mount -t tmpfs tmpfs /mnt
number=0
for path in $KEPT; do
    number=$((number + 1)); mkdir "/mnt/$number"; mount --rbind "$path" "/mnt/$number"
done
mount -t tmpfs -o mode=1777 tmpfs /tmp
for folder in $CLOSED; do mount -t tmpfs -o mode=755 tmpfs "$folder"; done
number=0
for path in $KEPT; do
    number=$((number + 1)); mkdir -p "$path"; mount --bind "/mnt/$number" "$path"
    mount -o remount,bind,ro "$path"
done
for folder in $CLOSED; do mount -o remount,bind,ro "$folder"; done
umount -l /mnt
mount -o remount,bind,ro /
cd /
exec setpriv $AS --no-new-privs --inh-caps=-all --bounding-set=-all env -u KEPT -u FILES -u CLOSED -u AS "$@"
"""
#: What a container that this is run in may refuse, although it is root's there.
_ALLOWED = """
set -e
mount -t tmpfs tmpfs /mnt
mount -o remount,bind,ro /
exec setpriv --reuid=65534 --regid=65534 --clear-groups --no-new-privs --inh-caps=-all --bounding-set=-all true
"""


def contained(
    command: Sequence[str],
    environ: Mapping[str, str],
    *,
    kept: Sequence[Path] = (),
    files: Mapping[str, Path] | None = None,
    user: int | None = None,
) -> tuple[list[str], dict[str, str]]:
    """``command`` and its whole environment, made ready for ``Popen``.

    ``kept``: folders that it needs to read although they may lie in ``/tmp``. ``files``: by the path at which they
    appear. ``user``: and group; ``None``: whoever runs the test. Skips the test where namespaces may not be made.
    """
    require_namespaces()
    given = {
        "KEPT": " ".join(map(str, kept)),
        "CLOSED": " ".join(sorted({str(folder) for path in kept for folder in _closed(path)})),
        "FILES": " ".join(f"{path}:{file}" for path, file in (files or {}).items()),
        "AS": "" if user is None else f"--reuid={user} --regid={user} --clear-groups",
    }
    return ["unshare", "--mount", "sh", "-c", _SCRIPT, "sh", *command], {**environ, **given}


def _closed(path: Path) -> list[Path]:
    """The outermost folder above ``path`` that others may not enter, if any; those in /tmp are made anew anyway."""
    above = [folder for folder in reversed(path.parents) if not folder.stat().st_mode & stat.S_IXOTH]
    return [folder for folder in above[:1] if not folder.is_relative_to("/tmp")]


def require_namespaces() -> None:
    """Skip the test where this cannot be done."""
    if os.geteuid() != 0 or not all(map(shutil.which, ("unshare", "setpriv"))):
        pytest.skip("namespaces need Linux and root")
    allowed = ["unshare", "--mount", "--net", "sh", "-c", _ALLOWED]
    if subprocess.run(allowed, check=False, capture_output=True).returncode:
        pytest.skip("namespaces, mounts in them or other users are not allowed here")
