"""Prefixway: a prefix-aware routing gateway for fleets of vLLM replicas.

The map. Each folder is a room with one job; imports point downwards only.

    cli                     argv -> a command
    app                     builds every object once, starts and stops them
    edge/     observe/      bytes in and out            | metrics, status, access log
    router/                 InferenceRequest -> Decision
    kv/                     which replica holds which block, in which tier
    fleet/    prompt/       replicas and their load     | text -> tokens -> block hashes
    settings  errors        the environment             | what can go wrong, and its HTTP status

``router_strategies`` lies below all of it: pure functions from candidates to a choice.
"""

__version__ = "0.1.0"
