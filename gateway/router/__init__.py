"""InferenceRequest -> Decision: what is known of a prompt, who may serve it, who is chosen, what is booked.

router          Router: prepares a request once, attempts it as often as it takes
prepared        what was known of a prompt when it came
candidates      replicas as strategies see them
decision        which replica, and why: headers, log fields
attempt         one try at one replica, booked and released once
exchange        the record of one client request, for whoever observes
encoder_loading every model of the fleet gets its tokenizer
"""
