"""ReplicaOptions: everything that makes one simulated replica differ from another."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from loadtest.replica.chunk_store import SharedStorage
from loadtest.replica.kv_events import EventDialect
from loadtest.replica.model_folder import DEFAULT_FOLDER
from loadtest.replica.publisher import ANY_PORT
from loadtest.replica.scheduler import Speeds

MetricsDialect = Literal["0.32", "0.8"]


@dataclass(frozen=True, slots=True)
class ReplicaOptions:
    """Ports 0 are chosen at the start. Rank r publishes on the port of rank 0 plus r where that is given."""

    model: str = "simulated"
    folder: Path = DEFAULT_FOLDER
    loras: tuple[str, ...] = ()
    host: str = "127.0.0.1"
    port: int = 0
    block_size: int = 16  # tokens
    capacity_blocks: int = 2048  # usable ones, for each rank
    max_model_len: int = 16_384  # tokens; less where the cache is smaller
    ranks: int = 1
    host_chunks: int = 0  # of prompts, in host memory as with LMCache; 0: there is none
    storage: SharedStorage | None = None  # the same one for all that share it
    chunk_tokens: int = 256
    tells_host_removals: bool = True  # LMCache inside of the engine does not
    speeds: Speeds = field(default_factory=Speeds)
    answer_tokens: tuple[int, int] = (16, 48)  # how long an answer is that nobody limits
    answer_text: str = ""  # answer this, whatever was asked
    kv_events: bool = True
    events_endpoint: str = ANY_PORT
    replay_endpoint: str | None = ANY_PORT
    event_dialect: EventDialect = EventDialect.V0_32
    lists_event_sources: bool = True  # /kv_event_sources exists
    buffer_steps: int = 10_000
    hash_seed: bytes = b""
    bytes_hashes: bool = False
    prompt_tokens_details: bool = True  # cached_tokens in usage
    metrics_dialect: MetricsDialect = "0.32"
    version: str = "0.32.0"

    @property
    def context_limit(self) -> int:
        """Tokens of prompt and answer that one request may have: what vLLM would let start at all."""
        return min(self.max_model_len, self.capacity_blocks * self.block_size)

    def endpoint_of(self, endpoint: str, rank: int) -> str:
        """The bind address of a rank, as vLLM offsets it."""
        base, _, port = endpoint.rpartition(":")
        return endpoint if port in {"0", "*"} else f"{base}:{int(port) + rank}"
