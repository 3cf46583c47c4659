"""The edge room: bytes in and out.

    server, client_connections          the client's side of the wire: the listening socket, all its connections
    tls, certificate                    what it is shown there, and until when that is good
    client_connection, answer           one connection: whose turn it is, and what it is answered
    request_reader, request_head        bytes in, requests out
    send_watch, upload_budget           whether a client reads; what all uploads together may take
    dead_hosts                          how a peer that lost its power is noticed
    edge_app, client_request            who handles them: what a client asked, and where that goes
    routes, auth, key_file, cors        what may pass, who may ask, from which web pages
    admission                           how many at a time; waiting_line, freeing_pace: its queue
    proxy, delivery, relay, retries     attempt by attempt, until an answer has gone to the client
    upstream_pool, upstream_connection  the replicas' side
    headers, fields, aliases            what is changed on the way; json_span: where in a body
    usage_for_us                        token counts that only we ask for
    stream_tap, error_event             what is overheard, and what is said when a replica breaks off
    routing                             the shape of the router that is asked

It knows nothing of prompts, caches or loads: it asks a router, and tells it how each attempt ended.
"""
