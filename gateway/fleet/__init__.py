"""Replicas and their load: who is in the fleet, how each is, what each was given.

replica_pool      ReplicaPool: membership, names of models, who may be sent a request
server            one HTTP server: health, breaker, back-off; server_spec: as configuration names it; origin: its URL
replica           one cache and queue of a server; replica_key: its identity; event_source: where it publishes
inflight          Workload: what a replica was given and has not finished
speeds            what is learned of prefill and decoding, pooled; utilisation: how busy prefill keeps the fleet
breaker, outcome  how an attempt ended, and what that says of its server
probes            asks servers how they are; server_pages, load_report, model_card: what they answer
remote_tokenizer  a replica's /tokenize, the last resort
discovery/        where server_specs come from
"""
