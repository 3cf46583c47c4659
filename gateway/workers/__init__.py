"""Several gateways behind one set of ports: `prefixway serve --workers N`.

The *supervisor* is the process that was started. It owns the ports and serves the side ones; *workers* are ordinary
gateways in processes of their own, which accept on the public socket together. It carries no request itself.

supervisor       builds the parent's objects, starts and stops them
crew             all workers: who accepts, rolling replacement; post: one place, filled again when its worker dies
limits, tally    how long what may take; what happened so far; crew_listener: who is told of it
worker_process   a worker as the supervisor sees it; worker: the same from inside
channel          what the two tell each other; inheritance: what a worker is given at its start
worker_pages     asks workers for their own pages
crew_metrics     /metrics of all; metrics_ledger: the sums, over deaths; gauge_rules: how gauges become one
crew_admin       the admin port of all; merged_status: one page of many
"""
