"""Make loadtest/model: a small byte-level BPE tokenizer with a ChatML template, for the simulated replicas.

Trained on the docstrings of the standard library, so nothing is fetched. The same Python release and the same
`tokenizers` give the same bytes. Run from the repository's root: python scripts/train_tokenizer.py
"""

from __future__ import annotations

import importlib
import inspect
import json
from collections.abc import Iterator
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

OUT = Path(__file__).parents[1] / "loadtest" / "model"
VOCAB_SIZE = 2048
SPECIAL_TOKENS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
# fmt: off
MODULES = [
    "argparse", "asyncio", "collections", "concurrent.futures", "configparser", "contextlib", "csv",
    "ctypes", "dataclasses", "datetime", "decimal", "difflib", "email.message", "enum", "fractions",
    "functools", "heapq", "html.parser", "http.client", "inspect", "ipaddress", "itertools", "json",
    "logging", "mailbox", "multiprocessing", "operator", "optparse", "os", "pathlib", "pickle",
    "pprint", "random", "re", "sched", "select", "shutil", "smtplib", "socket", "sqlite3", "ssl",
    "statistics", "string", "subprocess", "tarfile", "tempfile", "textwrap", "threading", "tkinter",
    "turtle", "typing", "unittest", "urllib.request", "uuid", "weakref", "xml.dom.minidom",
    "zipfile",
]
# fmt: on

CHAT_TEMPLATE = """\
{%- if tools %}
    {{- '<|im_start|>system\\n' }}
    {%- if messages[0].role == 'system' %}
        {{- messages[0].content + '\\n\\n' }}
    {%- endif %}
    {{- 'You may call these tools:\\n' }}
    {%- for tool in tools %}
        {{- tool | tojson + '\\n' }}
    {%- endfor %}
    {{- '<|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
    {%- if not (tools and loop.first and message.role == 'system') %}
        {{- '<|im_start|>' + message.role + '\\n' }}
        {%- if message.content is string %}
            {{- message.content }}
        {%- elif message.content %}
            {%- for part in message.content if part.type == 'text' %}
                {{- part.text }}
            {%- endfor %}
        {%- endif %}
        {%- for call in message.tool_calls or [] %}
            {{- '\\n<tool_call>\\n' + call.function | tojson + '\\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}"""


def corpus() -> Iterator[str]:
    """The docstrings of the modules and of what they define, in a fixed order."""
    for name in MODULES:
        module = importlib.import_module(name)
        for item in (module, *(vars(module)[key] for key in sorted(vars(module)))):
            if item is module or getattr(item, "__module__", None) == name:
                yield inspect.getdoc(item) or ""


def train() -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB_SIZE,
        special_tokens=SPECIAL_TOKENS,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(corpus(), trainer)
    return tokenizer


def write_json(name: str, value: object) -> None:
    (OUT / name).write_text(json.dumps(value, indent=2) + "\n")


def main() -> None:
    OUT.mkdir(exist_ok=True)
    tokenizer = train()
    tokenizer.save(str(OUT / "tokenizer.json"))
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": None,
        "eos_token": "<|im_end|>",
        "pad_token": "<|endoftext|>",
        "model_max_length": 16384,
        "clean_up_tokenization_spaces": False,
        "chat_template": CHAT_TEMPLATE,
    }
    write_json("tokenizer_config.json", config)
    eos = tokenizer.token_to_id("<|im_end|>")
    write_json("config.json", {"model_type": "simulated", "vocab_size": VOCAB_SIZE, "eos_token_id": eos})
    print(f"{OUT}: {tokenizer.get_vocab_size()} tokens")


if __name__ == "__main__":
    main()
