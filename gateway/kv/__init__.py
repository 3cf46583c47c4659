"""Who holds which block, in which tier.

event_following   follows whoever is in the pool, or a part of them
indexer           one follower a replica, each writing the index
follower          a feed and an applier; follower_state, packed_numbers: what it knows, for another process
feed              one replica's stream, in order: sequence decides, by history and waiting_batches; subscription,
                  inbox: its sockets; feed_stats, lateness, trust; evidence (counted): what requests showed
events            a payload -> events: every encoding since vLLM 0.10
applier           events -> index: resolver knows what a hash means, ownership counts what is held; resets: an emptied
                  cache is heard of twice
index             PrefixIndex, the protocol; memory_index over owner_masks: the one in this process; tee: several
index_budget      keeps all of it within a bound of memory; thinning: gives up what helps least
routed            prompts sent whose blocks no event confirmed yet; expected_blocks: those of one replica
l2_estimate       what most likely lies in storage shared by all replicas, which no event tells
salted_prompts    what publishers that tell no cache salt must not be believed of
tiers             L0, L1, L2, and tokens per tier
"""
