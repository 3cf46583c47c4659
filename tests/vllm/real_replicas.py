"""Two real vLLM servers on the CPU: a tiny model with random weights, deterministic, with a real prefix cache."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

MODEL_FILES = Path(__file__).parents[2] / "loadtest" / "model"
BLOCK_SIZE = 32  # the CPU backend takes multiples of 32 only
BLOCKS = 512


class RealReplica(NamedTuple):
    """A server that answers /health."""

    url: str
    log: Path


def make_model(folder: Path) -> Path:
    """A model folder: our tokenizer and template, and a Llama so small that random weights do."""
    folder.mkdir(parents=True)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(MODEL_FILES / name, folder)
    vocabulary = json.loads((folder / "tokenizer.json").read_text())
    ids = {**vocabulary["model"]["vocab"], **{t["content"]: t["id"] for t in vocabulary["added_tokens"]}}
    stop = ids["<|im_end|>"]
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 2,
        "head_dim": 32,
        "vocab_size": -(-(max(ids.values()) + 1) // 64) * 64,
        "max_position_embeddings": 8192,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "hidden_act": "silu",
        "tie_word_embeddings": True,
        "torch_dtype": "bfloat16",
        "eos_token_id": stop,
        "bos_token_id": None,
    }
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": stop}))
    return folder


@contextlib.contextmanager
def real_replicas(environment: Path, folder: Path, count: int = 2) -> Iterator[list[RealReplica]]:
    """Start ``count`` servers and wait until they are healthy; stop them at the end."""
    model = make_model(folder / "tiny")
    processes, replicas = [], []
    try:
        for number in range(count):
            http, events, replay = free_port(), free_port(), free_port()
            log = folder / f"replica{number}.log"
            processes.append(_start(environment, model, http, events, replay, log))
            replicas.append(RealReplica(f"http://127.0.0.1:{http}", log))
        for process, replica in zip(processes, replicas):
            _await_health(process, replica)
        yield replicas
    finally:
        for process in processes:
            _stop(process)


def free_port() -> int:
    """A port nobody listens on at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _start(environment: Path, model: Path, http: int, events: int, replay: int, log: Path) -> subprocess.Popen[bytes]:
    events_config = {
        "enable_kv_cache_events": True,
        "publisher": "zmq",
        "endpoint": f"tcp://*:{events}",
        "replay_endpoint": f"tcp://*:{replay}",
        "topic": "kv-events",
    }
    command = [
        str(environment / "bin/python"), "-m", "vllm.entrypoints.openai.api_server",
        "--model", str(model), "--served-model-name", "tiny", "--host", "127.0.0.1", "--port", str(http),
        "--load-format", "dummy", "--dtype", "bfloat16", "--enforce-eager", "--distributed-executor-backend", "uni",
        "--max-model-len", "4096", "--max-num-seqs", "8", "--block-size", str(BLOCK_SIZE), "--enable-prefix-caching",
        "--num-gpu-blocks-override", str(BLOCKS), "--enable-prompt-tokens-details",
        "--kv-events-config", json.dumps(events_config),
    ]  # fmt: skip
    settings = {
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
        "VLLM_SERVER_DEV_MODE": "1",
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "OMP_NUM_THREADS": "1",
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        "TOKENIZERS_PARALLELISM": "false",
    }
    with log.open("wb") as out:
        return subprocess.Popen(
            command, env=os.environ | settings, stdout=out, stderr=subprocess.STDOUT, start_new_session=True
        )


def _await_health(process: subprocess.Popen[bytes], replica: RealReplica, timeout_s: float = 600) -> None:
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RuntimeError(f"vLLM ended with {process.returncode}:\n{replica.log.read_text()[-3000:]}")
        with contextlib.suppress(OSError), urllib.request.urlopen(f"{replica.url}/health", timeout=2):
            return
        time.sleep(0.25)
    raise RuntimeError(f"vLLM is not healthy after {timeout_s} s:\n{replica.log.read_text()[-3000:]}")


def _stop(process: subprocess.Popen[bytes]) -> None:
    """TERM takes the engine along; what is left of its own process group after a while is killed."""
    process.terminate()
    try:
        process.wait(timeout=15)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
