"""InferenceRequest -> Decision: what is known of a prompt, who may serve it, who is chosen, what is booked.

router          Router: prepares a request once, attempts it as often as it takes
prepared        what was known of a request when it came
prompt_reading  its prompt: tokens, hashes, who holds them
candidates      replicas as strategies see them
decision        which replica, and why: headers, log fields
explanation     what would be decided now, with every number behind it
onlookers       who sees each first choice: shadow (strategies asked and not heeded), recorder (a decision_record of it)
attempt         one try at one replica, booked and released once
claim           what was predicted of it; truth: what became of that, by replica: replica_truth, prediction_counts,
                counter_window (by its metrics), confirmations (by its events)
response_homes  which server keeps which stored response
exchange        the record of one client request, for whoever observes; reset_watch: those that emptied a cache
encoder_loading every model of the fleet gets its tokenizer
"""
