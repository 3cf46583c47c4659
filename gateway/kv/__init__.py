"""Who holds which block, in which tier.

event_following   follows whoever is in the pool, or a part of them
indexer           one follower a replica, each writing the index
follower          a feed and an applier; follower_state, packed_numbers: what it knows, for another process
feed              one replica's stream, in order: sequence decides; subscription, inbox: its sockets; feed_stats, trust
events            a payload -> events: every encoding since vLLM 0.10
applier           events -> index: resolver knows what a hash means, ownership counts what is held
index             PrefixIndex, the protocol; memory_index over owner_masks: the one in this process; tee: several
routed            prompts sent whose blocks no event confirmed yet
tiers             L0, L1, L2, and tokens per tier
"""
