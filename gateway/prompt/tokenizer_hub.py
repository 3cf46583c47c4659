"""TokenizerHub: a model's tokenizer files from the Hugging Face cache on disk, or from the hub itself.

A thin layer over ``huggingface_hub`` (the extra ``hub``), which reads HF_HOME, HF_TOKEN, HF_ENDPOINT and
HF_HUB_OFFLINE by itself. Weights are never fetched.
"""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import NamedTuple, Self

from gateway.prompt.tokenizer_files import FILE_PATTERNS, TokenizerNotFound

_NAME = re.compile(r"\w[\w.-]*(?:/\w[\w.-]*)?")


class HubName(NamedTuple):
    """A repository on the hub, perhaps pinned: ``Qwen/Qwen3-8B@9c925d6``."""

    repository: str
    revision: str | None

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """``None`` if ``text`` can be no repository (a path, say)."""
        repository, _, revision = text.partition("@")
        return cls(repository, revision or None) if _NAME.fullmatch(repository) else None


class TokenizerHub:
    """Blocking: call it in a thread. ``endpoint`` and ``cache_dir`` override huggingface_hub's own."""

    def __init__(self, endpoint: str | None = None, cache_dir: Path | None = None) -> None:
        self._endpoint = endpoint
        self._cache_dir = cache_dir

    def cached(self, name: HubName) -> Path:
        """The folder of ``name`` in the local cache. Raises :class:`TokenizerNotFound`."""
        return self._snapshot(name, local_only=True)

    def download(self, name: HubName) -> Path:
        """The folder of ``name`` after fetching what is missing. Raises :class:`TokenizerNotFound`."""
        return self._snapshot(name, local_only=False)

    def _snapshot(self, name: HubName, *, local_only: bool) -> Path:
        if importlib.util.find_spec("huggingface_hub") is None:
            raise TokenizerNotFound("huggingface_hub is not installed: pip install 'prefixway[hub]'")
        import huggingface_hub  # noqa: PLC0415 - an optional extra
        from huggingface_hub.errors import HfHubHTTPError  # noqa: PLC0415

        try:
            folder = huggingface_hub.snapshot_download(
                name.repository,
                revision=name.revision,
                allow_patterns=list(FILE_PATTERNS),
                local_files_only=local_only,
                endpoint=self._endpoint,
                cache_dir=self._cache_dir,
            )
        except (HfHubHTTPError, OSError, ValueError) as error:
            raise TokenizerNotFound(f"{name.repository}: {_first_line(error)}") from error
        return Path(folder)


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
