"""What gateways tell each other, through Redis.

    index/                 who holds what: written by one process for each replica, read by all
    load/      orders/     what each has sent where | what operators order for all
    responses/             which server keeps which stored response
    processes/             which processes there are, the secret they agree on, the heartbeat
    link/                  Redis itself: its scripts, its keys, and what happens when it does not answer

Everything here may fail at any moment: whoever asks gets an answer within a budget, or goes on with what the process
itself knows.
"""
