"""What people and machines see of the gateway.

request_metrics  what every request adds to, in counts; refusal_codes: the names of the gateway's own errors there
fleet_metrics    what is true at a scrape; truth_view: what became of predictions; probe_app: the port they are on
truth_page       what became of predictions as JSON, of one gateway or several
discovery_view   how well replicas are found
status           the state as JSON; admin_app: its port, with order_routes and explain_route
access_log       a line a request; logs: everything else; line_writer: neither waits for its reader
decision_log     a line a request with all that its replica was chosen by; rotating_file: where it goes
speeds_page      what is learned of speeds as JSON
shadow_metrics   what strategies that are asked and not heeded would have done; shadow_page: the same as JSON
models_page      /v1/models
side_server      a small app on a port of its own
"""
