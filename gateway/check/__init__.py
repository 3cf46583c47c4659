"""Proof that prefix routing works, replica by replica, and the name of what breaks it.

finding             the closed vocabulary of what can be wrong, with its mends; verdict: what one check says
knowledge           what this process believes of the fleet, for checks to compare with what replicas do
replica_checks      every check of one replica, in the order of the chain:
    state_check         what its probes know: reachable, a model, metrics
    tokenizer_check     our tokens beside its own, of the texts and chats in probe_corpus
    holding_check       whether what it is said to hold is there
    event_check         whether its events tell of a prompt it was just sent; unseen_prompt: that prompt
    scope_check         the same with a cache salt, and with LoRA adapters
    replay_check        whether its replay port tells what was published; replay_reader asks it
replica_caller      the small requests of checks, marked, straight to the replica
symptoms, watch     what is to be seen without asking anybody, all the time; restless: events that begin anew too often
background_checks   checks after a replica joined, now and then, and when something looks wrong
finding_book        the findings in force, and since when
"""
