"""What gateways tell each other, through Redis.

The index that one process writes and all read, the load each has dispatched, and what was ordered for the whole
fleet. Everything here may fail at any moment: whoever asks gets an answer within a budget, or goes on with what
the process itself knows.
"""
