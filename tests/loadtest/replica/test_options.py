"""What the options work out to."""

from __future__ import annotations

from loadtest.replica.options import ReplicaOptions


def test_the_context_is_no_longer_than_the_cache() -> None:
    """vLLM would not start otherwise."""
    assert ReplicaOptions(block_size=16, capacity_blocks=10, max_model_len=8192).context_limit == 160
    assert ReplicaOptions(max_model_len=100).context_limit == 100


def test_ranks_publish_on_ports_in_a_row() -> None:
    """The port of rank 0 plus the rank; a port that is to be chosen is chosen for each."""
    options = ReplicaOptions()

    assert options.endpoint_of("tcp://*:5557", 2) == "tcp://*:5559"
    assert options.endpoint_of("tcp://127.0.0.1:0", 2) == "tcp://127.0.0.1:0"
