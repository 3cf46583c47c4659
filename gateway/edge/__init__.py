"""The edge room: bytes in and out.

    server, client_protocol, answer     the client's side of the wire
    upstream_pool, upstream_connection  the replicas' side
    edge_app, routes, auth              what may pass, and who may ask
    client_request, proxy               what a client asked, and one such request through
    delivery, relay, retries            attempt by attempt, until an answer has gone to the client
    headers, stream_tap                 what is changed and overheard on the way
    routing                             the shape of the router that is asked

It knows nothing of prompts, caches or loads: it asks a router, and tells it how each attempt ended.
"""
