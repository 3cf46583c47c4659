"""The texts and chats that show whether two tokenizers and two chat templates are the same; and text never seen.

Small, and chosen for what differs between tokenizers: white space, numbers, scripts, joined characters, special tokens;
and between templates: a system message, several turns, tools and their calls.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from random import Random
from typing import Any

TEXTS: tuple[str, ...] = (
    "The quick brown fox jumps over the lazy dog.",
    "  leading,   double and trailing spaces \t tab\n\n\nnewlines  ",
    "1234567890 3.14159 1,000,000 0x1F -42 2024-02-29",
    "naïve café, Zürich, Ελληνικά, русский, العربية, עברית, हिन्दी, 日本語のテキスト, 中文字符, 한국어",
    "\U0001f469\u200d\U0001f4bb \U0001f1ea\U0001f1fa e\u0301 \ufb01 \u200b zero width",
    "def f(x):\n    return {'a': [x, x ** 2], \"b\": None}  # code\n",
    "<s> </s> <|endoftext|> <|im_start|>user [INST]",
)

_TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "look_up",
            "description": "Look something up.",
            "parameters": {
                "type": "object",
                "properties": {"what": {"type": "string"}, "limit": {"type": "integer"}},
                "required": ["what"],
            },
        },
    }
]
_CALL = {
    "id": "call00001",
    "type": "function",
    "function": {"name": "look_up", "arguments": json.dumps({"what": "fox", "limit": 3})},
}
_SYSTEM = {"role": "system", "content": "You answer briefly."}
_QUESTION = {"role": "user", "content": "Who jumps over the dog?"}

#: What a check calls each, and the fields of its body.
CHATS: Mapping[str, Mapping[str, Any]] = {
    "a question": {"messages": [_QUESTION]},
    "with a system message": {"messages": [_SYSTEM, _QUESTION]},
    "several turns": {
        "messages": [
            _SYSTEM,
            _QUESTION,
            {"role": "assistant", "content": "The fox.\n"},
            {"role": "user", "content": "  Über wen? "},
        ]
    },
    "parts": {"messages": [{"role": "user", "content": [{"type": "text", "text": "Who jumps?"}]}]},
    "tools": {"messages": [_QUESTION], "tools": _TOOLS},
    "a tool's answer": {
        "messages": [
            _QUESTION,
            {"role": "assistant", "content": "", "tool_calls": [_CALL]},
            {"role": "tool", "tool_call_id": "call00001", "content": "the fox"},
        ],
        "tools": _TOOLS,
    },
}

_SYLLABLES = ["ba", "de", "fi", "go", "lu", "me", "ni", "po", "ra", "se", "ti", "vu", "wa", "xo", "ye", "zi"]


def unseen_text(words: int, random: Random) -> str:
    """So many made-up words, which no cache has seen: at least as many tokens in any tokenizer."""
    return " ".join("".join(random.choices(_SYLLABLES, k=4)) for _ in range(words))  # 65,536 words, each drawn anew
