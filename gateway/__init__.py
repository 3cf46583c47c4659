"""Prefixway: a prefix-aware routing gateway for fleets of vLLM replicas.

The map. Each folder is a room with one job; imports point downwards only.

    cli                     argv -> a command
    serving                 one gateway, or a supervisor of several, or one of those
    app       workers/      builds every object once, starts and stops them | several processes behind one set of ports
    check/                  does the chain from prompt to cache hit hold, replica by replica
    edge/     observe/      bytes in and out            | metrics, status, access log
    router/                 InferenceRequest -> Decision
    shared/                 what processes tell each other through Redis
    kv/                     which replica holds which block, in which tier
    fleet/    prompt/       replicas and their load     | text -> tokens -> block hashes
    settings  errors        the environment             | what can go wrong, and its HTTP status

Beside ``app`` lie the modules that put its parts together: ``edge_parts``, ``fleet_parts``, ``prompt_parts``,
``proof_parts``, ``observer_parts``, ``onlooker_parts``, ``explaining``, ``alone`` and ``together``; and commands that
need no gateway of their own: ``order_commands``, ``explain_command``, ``alive_command``, ``check_command`` with
``check_run`` and ``config_check``.

``router_strategies`` lies below all of it: pure functions from candidates to a choice.
"""

__version__ = "0.1.0"
