"""Replay: a trace through a strategy and simulated replicas, offline, in simulated time, the same for the same seed.

trace                          what is asked, and when
trace_source, trace_file       where it comes from: a file of any known format, or the generator
mooncake, dialogues            the formats of public traces
decision_trace                 a gateway's decision log
trace_lines, block_chains      what readers share: lines and their errors; ids that mean prefixes
session_keys                   who belongs together where a trace does not say
generator, kinds/              traces of our own with the same kinds of structure
load_level                     how fast a trace must be played to keep so many replicas so busy
offered_work, busy_span        engine seconds of requests; the same for closed loops
shared_lru                     what one cache for all would find
scenario                       everything about a run but the trace, the strategy and the seed
agenda                         simulated time: what happens next
engine, engine_cache           one replica: queue, batching, chunked prefill, its KV memory
lower_tier                     host memory, or storage that all share
chooser                        one gateway; own_chooser: the project's own router
rival_chooser                  one of another project: of :mod:`loadtest.rivals`
run                            all of it put together; gives an outcome
outcome, figures               what came of one run, request by request; and in numbers
contender, arguments, plan     the command line: who is compared, in what, and which runs that makes
one_run, grid, progress        a run from its words to its figures; many, in several processes
measured, runs_file            a run with its figures; a file of them, to go on with
known_traces                   which traces that file is about
code_version                   which code made them
comparison, confidence         figures of many runs, paired, and how sure their ratios are
report, table                  what the comparison says, for a terminal and a CSV file
page, page_style, plots        the same as a page
command                        ``python -m loadtest replay``
"""
