"""Prompts: endless different ones, of a few beginnings that replicas hold and an ending of their own."""

from __future__ import annotations

from random import Random

from loadtest.replica.model_folder import ModelFolder
from loadtest.replica.options import ReplicaOptions

MODEL = ReplicaOptions().model
_BEGINNINGS = 8
_WORD_CHARS = 5  # each a token, and all requests of one length


class Prompts:
    """Chats of one message; each word is one token of the simulated model."""

    def __init__(self, folder: ModelFolder, shared_words: int, own_words: int) -> None:
        self._words = [word.encode() for word in folder.words if len(word) == _WORD_CHARS]
        self._own_words = own_words
        same_everywhere = Random(1)
        self.beginnings = [b" ".join(same_everywhere.choices(self._words, k=shared_words)) for _ in range(_BEGINNINGS)]
        self._random = Random()

    @classmethod
    def short(cls, folder: ModelFolder) -> Prompts:
        """40 words, some 50 tokens: the first two blocks are shared."""
        return cls(folder, 34, 6)

    @classmethod
    def long(cls, folder: ModelFolder) -> Prompts:
        """8,000 tokens, 7,500 of which are shared."""
        return cls(folder, 7_500, 490)

    def text(self) -> bytes:
        """The next one."""
        beginning = self._random.choice(self.beginnings)
        return b"%b %b" % (beginning, b" ".join(self._random.choices(self._words, k=self._own_words)))

    def request(self, *, stream: bool, user: bytes = b"benchmark") -> bytes:
        """The next one as an HTTP request."""
        body = b'{"model":"%b","stream":%b,"user":"%b","messages":[{"role":"user","content":"%b"}]}' % (
            MODEL.encode(),
            b"true" if stream else b"false",
            user,
            self.text(),
        )
        return _HEAD % len(body) + body


_HEAD = (
    b"POST /v1/chat/completions HTTP/1.1\r\nhost: benchmark\r\ncontent-type: application/json\r\n"
    b"content-length: %d\r\n\r\n"
)
