"""Replicas and their load: who is in the fleet, how each is, what each was given.

replica_pool      ReplicaPool: membership, who may be sent a request; model_names: what a request's model stands for
server            one HTTP server: health, breaker, back-off; server_spec: as configuration names it; origin: its URL
replica           one cache and queue of a server; replica_key: its identity; event_source: where it publishes
inflight          Workload: what a replica was given and has not finished
strangers         what its report shows beyond that: requests of others
prefill_timer     from first bytes, how long prefills took: prefill_sample
speeds            what is learned of prefill and decoding, pooled over replicas: rate_estimator
utilisation       how busy prefill keeps the fleet
outcome           how an attempt ended, what that says of its server, what is tried again: one table
breaker, silence  how often in a row attempts failed at a server; how long it has kept them waiting
probes            asks servers how they are; server_pages, load_report, model_card: what they answer
response_home     where a stored response is kept
remote_tokenizer  a replica's /tokenize, the last resort
discovery/        where server_specs come from
"""
