"""Files are found under transformers' names, in transformers' precedence."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gateway.prompt.tokenizer_files import TokenizerFiles, TokenizerNotFound


def write(folder: Path, **files: object) -> Path:
    """``a__b`` stands for a/b; ``tokenizer_json`` for tokenizer.json."""
    for name, content in {"tokenizer_json": {}, **files}.items():
        stem, _, suffix = name.replace("__", "/").rpartition("_")
        path = folder / f"{stem}.{suffix}"
        path.parent.mkdir(exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")
    return folder


def test_reads_a_folder_or_its_tokenizer_json(tmp_path: Path) -> None:
    """Both name the same model."""
    write(tmp_path, tokenizer_config_json={"chat_template": "T"})

    assert TokenizerFiles.read(tmp_path) == TokenizerFiles.read(tmp_path / "tokenizer.json")


def test_special_tokens_are_text_or_objects(tmp_path: Path) -> None:
    """The older map fills what the configuration lacks; null is none."""
    write(
        tmp_path,
        tokenizer_config_json={
            "bos_token": {"content": "<s>", "lstrip": False},
            "eos_token": "</s>",
            "pad_token": None,
        },
        special_tokens_map_json={"bos_token": "old", "pad_token": {"content": "<pad>"}, "other": "x"},
    )

    tokens = TokenizerFiles.read(tmp_path).special_tokens

    assert tokens == {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"}


def test_template_files_win_in_transformers_order(tmp_path: Path) -> None:
    """jinja files, then the processor's JSON, then the tokenizer's configuration."""
    write(tmp_path, tokenizer_config_json={"chat_template": "configured"})
    seen = [TokenizerFiles.read(tmp_path).chat_templates]
    write(tmp_path, chat_template_json={"chat_template": "processor"})
    seen.append(TokenizerFiles.read(tmp_path).chat_templates)
    write(tmp_path, chat_template_jinja="ü", additional_chat_templates__tool_use_jinja="tools")
    seen.append(TokenizerFiles.read(tmp_path).chat_templates)

    assert seen == [
        {"default": "configured"},
        {"default": "processor", "tool_use": "configured"},  # vLLM leaves the processor out where there are tools
        {"default": "ü", "tool_use": "tools"},
    ]


def test_named_templates(tmp_path: Path) -> None:
    """A list of them, as older configurations have it; what is malformed is left out."""
    named = [{"name": "default", "template": "D"}, {"name": "tool_use", "template": "T"}, {"name": 5}, "x"]

    write(tmp_path, tokenizer_config_json={"chat_template": named})

    assert TokenizerFiles.read(tmp_path).chat_templates == {"default": "D", "tool_use": "T"}


@pytest.mark.parametrize(
    "architecture", ["GptOssForCausalLM", "DeepseekV32ForCausalLM", "KimiK3ForConditionalGeneration"]
)
def test_chats_rendered_in_python_have_no_template(architecture: str, tmp_path: Path) -> None:
    """vLLM ignores the template beside them; so must we."""
    write(tmp_path, tokenizer_config_json={"chat_template": "T"}, config_json={"architectures": [architecture]})
    files = TokenizerFiles.read(tmp_path)

    assert files.chat_templates == {}
    assert files.native_chats


@pytest.mark.parametrize(
    ("model_type", "more", "is_native"),
    [
        ("gpt_oss", [], True),  # whatever its architecture is called
        ("mistral", ["tekken.json", "consolidated.safetensors"], True),
        ("mistral", ["tokenizer.model.v3", "consolidated-00001-of-00002.safetensors"], True),
        ("mistral", ["tekken.json"], False),
        ("mistral", ["consolidated.safetensors"], False),
        (["gpt_oss"], [], False),
    ],
)
def test_so_have_harmony_and_mistrals_own_format(
    model_type: object, more: list[str], is_native: bool, tmp_path: Path
) -> None:
    """By the rules that vLLM goes by."""
    write(tmp_path, tokenizer_config_json={"chat_template": "T"}, config_json={"model_type": model_type})
    for name in more:
        (tmp_path / name).touch()
    files = TokenizerFiles.read(tmp_path)

    assert files.native_chats is is_native
    assert files.chat_templates == ({} if is_native else {"default": "T"})


def test_says_what_is_missing(tmp_path: Path) -> None:
    """No folder, nothing in it, or only what mistral-common reads."""
    (tmp_path / "tekken").mkdir()
    (tmp_path / "tekken" / "tekken.json").touch()

    for path, words in [(tmp_path / "no", "no such"), (tmp_path, "no tokenizer.json"), (tmp_path / "tekken", "tekken")]:
        with pytest.raises(TokenizerNotFound, match=words):
            TokenizerFiles.read(path)


def test_a_broken_configuration_is_named(tmp_path: Path) -> None:
    """Rather than guessed around."""
    write(tmp_path, tokenizer_config_json="{")

    with pytest.raises(TokenizerNotFound, match=r"tokenizer_config\.json"):
        TokenizerFiles.read(tmp_path)
