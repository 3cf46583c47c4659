"""TokenizerFiles: what a model's folder says about its tokenizer and chat template. Reads files, loads
nothing.

The names and their precedence are transformers': ``tokenizer.json``, ``tokenizer_config.json``,
``special_tokens_map.json``, and for the template ``chat_template.jinja`` with ``additional_chat_templates/``,
else ``chat_template.json`` (processors; vLLM asks those only where there are no tools), else the ``chat_template`` of
``tokenizer_config.json``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

#: What to fetch of a model repository; never the weights.
FILE_PATTERNS = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "chat_template.jinja",
    "chat_template.json",
    "additional_chat_templates/*.jinja",
    "config.json",
)

_SPECIAL_TOKENS = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
# Whose chats vLLM (0.32) renders in Python, whatever template lies beside the tokenizer: by architecture, by model
# type, and by the files of Mistral's own format (``ModelConfig.__post_init__``, ``OnlineRenderer.use_harmony``,
# ``resolve_tokenizer_args``).
_NATIVE_ARCHITECTURES = (
    "DeepseekV32",
    "DeepseekV4",
    "GptOss",
    "Inkling",
    "KimiK3",
    "MoonshotKimia",
)
_NATIVE_MODEL_TYPES = frozenset({"gpt_oss"})
_MISTRAL_WEIGHTS, _MISTRAL_TOKENIZERS = "consolidated*.safetensors", ("tekken.json", "tokenizer.model.v*")


class TokenizerNotFound(Exception):
    """No usable tokenizer there; the message says what was looked for and what to do."""


@dataclass(frozen=True, slots=True)
class TokenizerFiles:
    """``chat_templates`` by name: ``default``, perhaps ``tool_use``; empty where jinja does not render the chat.
    ``native_chats``: that is so since vLLM renders it in Python.
    """

    tokenizer_json: Path
    config: Mapping[str, Any]
    special_tokens: Mapping[str, str]  # bos_token, eos_token, ...: what templates call them -> the token's text
    chat_templates: Mapping[str, str]
    native_chats: bool = False

    @classmethod
    def read(cls, path: Path) -> Self:
        """From a model's folder, or a ``tokenizer.json``. Raises :class:`TokenizerNotFound`."""
        tokenizer_json = path / "tokenizer.json" if path.is_dir() else path
        if not tokenizer_json.is_file():
            raise TokenizerNotFound(f"{path}: {_what_is_missing(path)}")
        folder = tokenizer_json.parent
        config, is_native = _read_object(folder / "tokenizer_config.json"), _renders_natively(folder)
        return cls(
            tokenizer_json=tokenizer_json,
            config=config,
            special_tokens=_special_tokens(config, _read_object(folder / "special_tokens_map.json")),
            chat_templates={} if is_native else _chat_templates(folder, config),
            native_chats=is_native,
        )


def _what_is_missing(path: Path) -> str:
    if not path.exists():
        return "no such file or folder"
    if path.is_dir() and (path / "tekken.json").exists():
        return "holds a tekken.json only, which mistral-common alone reads"
    return "holds no tokenizer.json"


def _special_tokens(*sources: Mapping[str, Any]) -> dict[str, str]:
    """The first source that has a token wins; a token is its text, or an object with ``content``."""
    found: dict[str, str] = {}
    for source in sources:
        for name in _SPECIAL_TOKENS:
            token = source.get(name)
            text = token.get("content") if isinstance(token, dict) else token
            if isinstance(text, str):
                found.setdefault(name, text)
    return found


def _renders_natively(folder: Path) -> bool:
    config = _read_object(folder / "config.json")
    architectures, model_type = config.get("architectures"), config.get("model_type")
    names = architectures if isinstance(architectures, list) else []
    if any(isinstance(name, str) and name.startswith(_NATIVE_ARCHITECTURES) for name in names):
        return True
    return (isinstance(model_type, str) and model_type in _NATIVE_MODEL_TYPES) or _is_mistral(folder)


def _is_mistral(folder: Path) -> bool:
    return _has(folder, _MISTRAL_WEIGHTS) and any(_has(folder, pattern) for pattern in _MISTRAL_TOKENIZERS)


def _has(folder: Path, pattern: str) -> bool:
    return next(folder.glob(pattern), None) is not None


def _chat_templates(folder: Path, config: Mapping[str, Any]) -> dict[str, str]:
    templates = {path.stem: _read_text(path) for path in folder.glob("additional_chat_templates/*.jinja")}
    main = folder / "chat_template.jinja"
    if main.is_file():
        templates["default"] = _read_text(main)
    if templates:
        return templates
    processor = _read_object(folder / "chat_template.json").get("chat_template")
    own = _named_templates(config.get("chat_template"))
    if processor is None:
        return own
    with_tools = own.get("tool_use", own.get("default"))
    return ({} if with_tools is None else {"tool_use": with_tools}) | _named_templates(processor)


def _named_templates(value: object) -> dict[str, str]:
    """One template, a list of ``{"name": .., "template": ..}``, or an object of them by name."""
    if isinstance(value, str):
        return {"default": value}
    if isinstance(value, list):
        value = {entry.get("name"): entry.get("template") for entry in value if isinstance(entry, dict)}
    named = value.items() if isinstance(value, dict) else ()
    return {name: text for name, text in named if isinstance(name, str) and isinstance(text, str)}


def _read_text(path: Path) -> str:
    """Raises :class:`TokenizerNotFound`."""
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise TokenizerNotFound(f"{path}: cannot be read: {error}") from error


def _read_object(path: Path) -> dict[str, Any]:
    """The JSON object in ``path``; ``{}`` if it does not exist. Raises :class:`TokenizerNotFound`."""
    try:
        value = json.loads(path.read_bytes())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise TokenizerNotFound(f"{path}: cannot be read: {error}") from error
    return value if isinstance(value, dict) else {}
