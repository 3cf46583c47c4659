"""A model so small that random weights do, in the forms that vLLM loads: its folder, and LoRA adapters for it."""

from __future__ import annotations

import json
import random
import shutil
import struct
from pathlib import Path

MODEL_FILES = Path(__file__).parents[2] / "loadtest" / "model"
_HIDDEN, _HEADS, _LAYERS, _RANK = 64, 2, 2, 8


def make_model(folder: Path) -> Path:
    """A model folder: our tokenizer and template, and a Llama whose weights vLLM makes up."""
    folder.mkdir(parents=True)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(MODEL_FILES / name, folder)
    vocabulary = json.loads((folder / "tokenizer.json").read_text())
    ids = {**vocabulary["model"]["vocab"], **{t["content"]: t["id"] for t in vocabulary["added_tokens"]}}
    stop = ids["<|im_end|>"]
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": _HIDDEN,
        "intermediate_size": 2 * _HIDDEN,
        "num_hidden_layers": _LAYERS,
        "num_attention_heads": _HEADS,
        "num_key_value_heads": _HEADS,
        "head_dim": _HIDDEN // _HEADS,
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


def make_adapter(folder: Path, seed: int = 1) -> Path:
    """A LoRA of that model, in PEFT's form: rank 8, on the queries and values, random."""
    folder.mkdir(parents=True)
    config = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": "tiny",
        "r": _RANK,
        "lora_alpha": 2 * _RANK,
        "lora_dropout": 0.0,
        "bias": "none",
        "target_modules": ["q_proj", "v_proj"],
    }
    (folder / "adapter_config.json").write_text(json.dumps(config))
    (folder / "adapter_model.safetensors").write_bytes(_adapter_weights(random.Random(seed)))
    return folder


def _adapter_weights(rng: random.Random) -> bytes:
    """In the safetensors format: the header's length as uint64 little-endian, the header as JSON, the data."""
    header: dict[str, object] = {}
    data = bytearray()
    for layer in range(_LAYERS):
        for module in ("q_proj", "v_proj"):
            for half, shape in (("lora_A", (_RANK, _HIDDEN)), ("lora_B", (_HIDDEN, _RANK))):
                values = [rng.gauss(0, 0.3) for _ in range(_RANK * _HIDDEN)]
                packed = struct.pack(f"<{len(values)}f", *values)
                name = f"base_model.model.model.layers.{layer}.self_attn.{module}.{half}.weight"
                header[name] = {"dtype": "F32", "shape": shape, "data_offsets": (len(data), len(data) + len(packed))}
                data += packed
    described = json.dumps(header).encode()
    return struct.pack("<Q", len(described)) + described + bytes(data)
