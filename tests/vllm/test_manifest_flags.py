"""What deploy/k8s gives vLLM and LMCache: each is a real flag or key of theirs, and read as it is meant."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.deploy.cluster import Cluster, container
from tests.deploy.compose_file import ComposeFile
from tests.deploy.kustomize import Manifest, rendered, written
from tests.vllm.lmcache_server import lmcache_environ

_FIELDS = {"metadata.name": "vllm-0", "metadata.uid": "6f1c2d3e-0000-4000-8000-000000000000"}

#: By vLLM's own parser of its command line, which also reads the JSON of each configuration.
_PARSE = """
import dataclasses, json, sys
from vllm.entrypoints.launchers.cli_args import make_arg_parser, validate_parsed_serve_args
from vllm.utils.argparse_utils import FlexibleArgumentParser
read = make_arg_parser(FlexibleArgumentParser()).parse_args(sys.argv[1:])
validate_parsed_serve_args(read)
told = {name: value for name, value in vars(read).items() if isinstance(value, (str, int, float, bool, list))}
for name in ("kv_events_config", "kv_transfer_config"):
    config = getattr(read, name)
    told[name] = config if isinstance(config, dict | None) else {f.name: getattr(config, f.name)
                                                          for f in dataclasses.fields(config)}
print(json.dumps(told, default=str))
"""

#: As LMCache reads its environment inside vLLM.
_CONFIGURE = """
import json
from lmcache.v1.config import LMCacheEngineConfig, _CONFIG_DEFINITIONS
config = LMCacheEngineConfig.from_env()
print(json.dumps({"keys": sorted(_CONFIG_DEFINITIONS), "read": {n: getattr(config, n) for n in _CONFIG_DEFINITIONS}},
                 default=str))
"""

_HASHES = """
import sys
from vllm.utils.hashing import get_hash_fn_by_name
print(get_hash_fn_by_name(sys.argv[1]).__name__)
"""


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Cluster:
    """With shared storage."""
    return Cluster(rendered(written(tmp_path_factory.mktemp("manifests")) / "k8s" / "example"))


@pytest.fixture
def vllm(example: Cluster) -> Manifest:
    return container(example.get("StatefulSet", "vllm"), "vllm")


def _run(environment: Path, program: str, *arguments: str, environ: Mapping[str, str] | None = None) -> str:
    """The last line that a program prints which runs where vLLM is installed."""
    given = {**os.environ, **lmcache_environ(environment), "HF_HUB_OFFLINE": "1", **(environ or {})}
    command = [str(environment / "bin/python"), "-c", program, *arguments]
    done = subprocess.run(command, env=given, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.splitlines()[-1]


def test_vllm_takes_every_flag(vllm_environment: Path, vllm: Manifest) -> None:
    read: dict[str, Any] = json.loads(_run(vllm_environment, _PARSE, *vllm["args"]))

    assert read["model_tag"] == vllm["args"][0]
    assert read["served_model_name"] == ["qwen2.5-7b-instruct"]
    assert (read["enable_prefix_caching"], read["enable_prompt_tokens_details"]) == (True, True)
    assert (read["prefix_caching_hash_algo"], read["shutdown_timeout"]) == ("sha256_cbor", 120)
    assert read["kv_events_config"]["enable_kv_cache_events"] is True
    assert read["kv_events_config"]["endpoint"] == "tcp://*:5557"
    assert read["kv_events_config"]["replay_endpoint"] == "tcp://*:5657"
    assert read["kv_transfer_config"]["kv_connector"] == "LMCacheConnectorV1"
    assert read["kv_transfer_config"]["kv_role"] == "kv_both"


def test_vllm_takes_every_flag_of_compose(vllm_environment: Path) -> None:
    """The same for each of its real replicas."""
    first, second = (ComposeFile.read().services[name].command for name in ("vllm-0", "vllm-1"))
    read: dict[str, Any] = json.loads(_run(vllm_environment, _PARSE, *first[2:]))

    assert (first, first[:2]) == (second, ["vllm", "serve"])
    assert (read["model_tag"], read["port"], read["shutdown_timeout"]) == (first[2], 8000, 45)
    assert (read["enable_prefix_caching"], read["enable_prompt_tokens_details"]) == (True, True)
    assert read["kv_events_config"]["replay_endpoint"] == "tcp://*:5657"


def test_a_flag_that_is_none_is_refused(vllm_environment: Path, vllm: Manifest) -> None:
    """So that the test above can fail: an unknown one, and an unknown key of a configuration."""
    for more in (["--enable-prefix-cachings"], ["--kv-events-config", '{"endpoints": "tcp://*:5557"}']):
        with pytest.raises(AssertionError, match=r"unrecognized|unexpected|validation"):
            _run(vllm_environment, _PARSE, *vllm["args"], *more)


def test_lmcache_knows_every_key(vllm_environment: Path, example: Cluster, vllm: Manifest) -> None:
    """A misspelt one would be ignored in silence."""
    environ = example.environ(vllm, _FIELDS)
    told = json.loads(_run(vllm_environment, _CONFIGURE, environ=environ))
    read = told["read"]
    ours = {name.removeprefix("LMCACHE_").lower() for name in environ if name.startswith("LMCACHE_")}

    assert ours - {*told["keys"]} == {"track_usage"}  # which LMCache reads apart from its configuration
    assert (read["chunk_size"], read["local_cpu"], read["max_local_cpu_size"]) == (256, True, 16.0)
    assert (read["enable_kv_events"], read["remote_serde"]) == (False, "naive")
    assert read["remote_url"] == "fs://localhost:0/mnt/kv-cache/"
    assert read["extra_config"] == {"fs_connector_relative_tmp_dir": "tmp-vllm-0"}
    assert _run(vllm_environment, _HASHES, read["pre_caching_hash_algorithm"]) == "sha256_cbor"
