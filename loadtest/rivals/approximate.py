"""Routers that read KV events, where none come: they guess from what they have sent, and choose by the same formula."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import ClassVar

from loadtest.rivals._block_tree import BlockTree
from loadtest.rivals._types import Pick, Rival, RivalRequest, View
from loadtest.rivals.dynamo import Dynamo
from loadtest.rivals.llm_d import LlmD


@dataclass(slots=True)
class LlmDApproximate(LlmD):
    """llm-d's default: the scores of :class:`LlmD`, with what the router believes each replica to hold.

    Source: ``approx-prefix-cache-producer`` and ``prefix-cache-scorer`` of llm-d-router (2026-08): a list of least
    recent use for each replica, as long as its GPU memory where replicas tell that, else 31,250 blocks of 64 tokens;
    at most 131,072 tokens of a prompt are matched. Simplified: blocks are those of the trace.
    """

    reads_events: ClassVar[bool] = False

    list_tokens: int = 31_250 * 64
    match_tokens: int = 131_072
    _tree: BlockTree = field(default_factory=BlockTree, init=False, repr=False)

    def select(self, request: RivalRequest, views: Sequence[View]) -> Pick:
        blocks = request.blocks[: self.match_tokens // request.block_tokens]
        with _guessed(self._tree, request, blocks, views):
            chosen = LlmD.select(self, request, views)
        most = chosen.view.capacity_blocks or self.list_tokens // request.block_tokens
        self._tree.insert(chosen.view.number, blocks, request.now, most=most)
        return chosen

    def left(self, number: int) -> None:
        LlmD.left(self, number)
        self._tree.forget(number)


@dataclass(slots=True)
class DynamoApproximate(Dynamo):
    """The cost of :class:`Dynamo`, with blocks that are believed to be where they were sent for ``ttl_s``.

    Source: ``--no-router-kv-events`` of ai-dynamo/dynamo 1.6.1 (``--router-ttl-secs`` 120). Its bound on the tree's
    size is off by default. Simplified: blocks are those of the trace.
    """

    reads_events: ClassVar[bool] = False

    ttl_s: float = 120.0
    _tree: BlockTree = field(init=False, repr=False)

    def __post_init__(self) -> None:
        Dynamo.__post_init__(self)
        self._tree = BlockTree(ttl_s=self.ttl_s)

    def select(self, request: RivalRequest, views: Sequence[View]) -> Pick:
        self._tree.expire(request.now)
        with _guessed(self._tree, request, request.blocks, views):
            chosen = Dynamo.select(self, request, views)
        self._tree.insert(chosen.view.number, request.blocks, request.now)
        return chosen

    def left(self, number: int) -> None:
        Dynamo.left(self, number)
        self._tree.forget(number)


@contextmanager
def _guessed(tree: BlockTree, request: RivalRequest, blocks: Sequence[int], views: Sequence[View]) -> Iterator[None]:
    """The views as they would be if events had told what the tree says."""
    told = [(view.l0_tokens, view.l1_tokens, view.l2_tokens) for view in views]
    matched = tree.matched(blocks, (view.number for view in views))
    for view in views:
        view.l0_tokens, view.l1_tokens, view.l2_tokens = matched[view.number] * request.block_tokens, 0, 0
    try:
        yield
    finally:
        for view, tokens in zip(views, told):
            view.l0_tokens, view.l1_tokens, view.l2_tokens = tokens


RIVALS: dict[str, type[Rival]] = {"dynamo_approximate": DynamoApproximate, "llm_d_approximate": LlmDApproximate}
