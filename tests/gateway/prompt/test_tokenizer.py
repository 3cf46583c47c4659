"""Tokenizers load into the fast library or the reference, and frame texts as tokenizer.json says."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import tokenizers
from tokenizers import models, pre_tokenizers, processors

from gateway.prompt.blocks import pack_tokens
from gateway.prompt.tokenizer import FastTokenizer, ReferenceTokenizer, load_tokenizer
from gateway.prompt.tokenizer_files import TokenizerFiles, TokenizerNotFound
from tests.gateway.prompt.model_folders import train_model

TEXT = "Hello world<|im_end|>\n\nGrüße 你好 12345"


def change(folder: Path, into: Path, change_tokenizer: Callable[[tokenizers.Tokenizer], object]) -> TokenizerFiles:
    """A copy of ``folder``'s tokenizer with a change."""
    tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    change_tokenizer(tokenizer)
    tokenizer.save(str(into / "tokenizer.json"))
    return TokenizerFiles.read(into)


def test_loads_into_the_fast_library(small_folder: Path) -> None:
    """A byte-level BPE; ids equal the reference's."""
    reference = tokenizers.Tokenizer.from_file(str(small_folder / "tokenizer.json"))

    tokenizer = load_tokenizer(TokenizerFiles.read(small_folder))

    assert isinstance(tokenizer, FastTokenizer)
    assert tokenizer.encode(TEXT, add_special_tokens=True) == pack_tokens(reference.encode(TEXT).ids)
    assert tokenizer.encode("", add_special_tokens=True) == b""


def test_falls_back_to_the_reference(tmp_path: Path, small_folder: Path) -> None:
    """What the fast library refuses (Metaspace, say) is encoded by `tokenizers`."""

    def use_metaspace(tokenizer: tokenizers.Tokenizer) -> None:
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()

    files = change(small_folder, tmp_path, use_metaspace)
    reference = tokenizers.Tokenizer.from_file(str(files.tokenizer_json))

    tokenizer = load_tokenizer(files)

    assert isinstance(tokenizer, ReferenceTokenizer)
    for text in (TEXT, f"<|im_start|>{TEXT}", f"{TEXT} {TEXT}"):
        assert tokenizer.encode(text, add_special_tokens=False) == pack_tokens(reference.encode(text).ids)


def test_word_piece_falls_back(tmp_path: Path) -> None:
    """Another model type altogether, with truncation and padding stored by its training."""
    tokenizer = tokenizers.Tokenizer(models.WordPiece({"[UNK]": 0, "a": 1, "b": 2}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.enable_truncation(2)
    tokenizer.enable_padding(length=8)
    tokenizer.save(str(tmp_path / "tokenizer.json"))

    loaded = load_tokenizer(TokenizerFiles.read(tmp_path))

    assert isinstance(loaded, ReferenceTokenizer)
    assert loaded.encode("a b a c", add_special_tokens=True) == pack_tokens([1, 2, 1, 0])


def test_stored_truncation_and_padding_are_off(tmp_path: Path, small_folder: Path) -> None:
    """In the fast library too."""

    def limit(tokenizer: tokenizers.Tokenizer) -> None:
        tokenizer.enable_truncation(4)
        tokenizer.enable_padding(length=64)

    plain = load_tokenizer(TokenizerFiles.read(small_folder))

    limited = load_tokenizer(change(small_folder, tmp_path, limit))

    assert limited.encode(TEXT, add_special_tokens=False) == plain.encode(TEXT, add_special_tokens=False)


@pytest.mark.parametrize(("single", "before", "after"), [("<|bos|> $A", 1, 0), ("$A <|im_end|>", 0, 1), ("$A", 0, 0)])
def test_special_tokens_come_from_the_post_processor(
    single: str, before: int, after: int, tmp_path: Path, small_folder: Path
) -> None:
    """Around the text if asked for, whatever tokenizer_config.json says of BOS: transformers 5."""

    def frame(tokenizer: tokenizers.Tokenizer) -> None:
        special = [(token, tokenizer.token_to_id(token)) for token in ("<|bos|>", "<|im_end|>")]
        tokenizer.post_processor = processors.TemplateProcessing(single=single, special_tokens=special)

    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"add_bos_token": True, "bos_token": "<|bos|>"}))
    files = change(small_folder, tmp_path, frame)
    reference = tokenizers.Tokenizer.from_file(str(files.tokenizer_json))

    tokenizer = load_tokenizer(files)

    plain = tokenizer.encode(TEXT, add_special_tokens=False)
    framed = tokenizer.encode(TEXT, add_special_tokens=True)
    assert framed == pack_tokens(reference.encode(TEXT).ids)
    assert framed[4 * before : len(framed) - 4 * after] == plain


def test_tokens_of_the_configuration_are_added(tmp_path: Path) -> None:
    """As transformers does: by id, then the named ones, with their flags; ids follow the vocabulary."""
    extra = {"content": "<tool>", "lstrip": False, "rstrip": True, "single_word": False, "normalized": False}
    folder = train_model(tmp_path, added_tokens_decoder={"900": extra}, pad_token="<pad>", bos_token="<|bos|>")

    tokenizer = load_tokenizer(TokenizerFiles.read(folder))

    size = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json")).get_vocab_size()
    assert tokenizer.encode("<tool>  <pad>", add_special_tokens=False) == pack_tokens([size, size + 1])


def test_one_tokenizer_serves_many_threads(small_folder: Path) -> None:
    """Both kinds: the same ids from eight threads at once."""
    files = TokenizerFiles.read(small_folder)
    fast = load_tokenizer(files)
    reference = tokenizers.Tokenizer.from_file(str(files.tokenizer_json))
    texts = [f"<|im_start|>{TEXT * (n % 7)}{n}" for n in range(400)]

    with ThreadPoolExecutor(8) as threads:
        got = list(threads.map(lambda text: fast.encode(text, add_special_tokens=False), texts))

    assert got == [pack_tokens(reference.encode(text).ids) for text in texts]


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"model": 5}'])
def test_a_broken_file_is_no_tokenizer(content: str, tmp_path: Path) -> None:
    """A clear error that names the file."""
    (tmp_path / "tokenizer.json").write_text(content)

    with pytest.raises(TokenizerNotFound, match=r"tokenizer\.json"):
        load_tokenizer(TokenizerFiles.read(tmp_path))
