"""Live: a trace over HTTP, through a running gateway and simulated replicas, beside the same trace offline.

live_slice     one trace, shrunk, as both play it: its requests, engines, and what a gateway is told
token_blocks   a trace's blocks as token ids
player         asks an OpenAI server for what a trace says, when it says it, and notes what came
live_run       replicas, a gateway that is handed in, and a player: gives an outcome like a replay's
agreement      figures of both side by side, and how far they rank strategies alike
"""
