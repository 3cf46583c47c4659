"""The simulated replica: vLLM's HTTP and ZeroMQ dialect, its block cache and its timing, without a model.

replica           SimulatedReplica: everything below, started and stopped
http_server       bytes in and out, and every way to break them
server_api        routes; generate_api, generate_request, answer_shape, api_error: the two that generate
scheduler         continuous batching in simulated time
block_cache       vLLM's prefix cache, pure; kv_events: what it publishes; publisher: on ZeroMQ
chunk_store       host memory and shared storage beside the cache, as with LMCache
model_folder      tokenizer and chat template; answer: what the model says
faults: what goes wrong with requests; silent_faults: what no request shows
options, metrics_text
"""

from loadtest.replica.chunk_store import SharedStorage
from loadtest.replica.faults import Fault, Faults
from loadtest.replica.options import ReplicaOptions
from loadtest.replica.replica import SimulatedReplica
from loadtest.replica.scheduler import Speeds
from loadtest.replica.silent_faults import SilentFaults

__all__ = ["Fault", "Faults", "ReplicaOptions", "SharedStorage", "SilentFaults", "SimulatedReplica", "Speeds"]
