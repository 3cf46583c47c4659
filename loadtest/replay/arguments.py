"""The arguments of ``python -m loadtest replay``: their names, units, defaults and what they may be."""

from __future__ import annotations

import argparse
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, TypeVar

from loadtest.replay import generator
from loadtest.replay.contender import ALL
from loadtest.replay.figures import SLO_S
from loadtest.replay.scenario import EngineOptions, Scenario

_Number = TypeVar("_Number", int, float)
_KINDS = {"int": "a whole number", "float": "a number"}

EXAMPLES = """\
A cell is one trace, fleet and load; in each cell every strategy meets the same requests at the same times, once for
each seed. Figures leave out the first tenth of a run. Simulated time: no server, no model, no network.

examples:
  python -m loadtest replay
      every strategy and every rival, 8 replicas, load 0.6
  python -m loadtest replay --trace conversation,agentic --replicas 4,16 --load 0.5,0.7 --out compared
      four fleets and loads on each of two traces; the page is compared/report.html
  python -m loadtest replay --trace decisions.jsonl --strategy kv_aware,prefix_aware
      on the traffic that a gateway's decision log has noted
  python -m loadtest replay --strategy kv_aware,kv_aware@cached_weight=4
      one strategy twice, with unlike options
  python -m loadtest replay --gateways 3 --event-delay-ms 1000 --slow 2x0.6 --out compared
      a harder scenario, added to what the folder has
"""


class Part(NamedTuple):
    """So many replicas, and a number about them."""

    replicas: int
    number: float


def add_replay_arguments(command: argparse.ArgumentParser) -> None:
    """Declare them all."""
    command.formatter_class = argparse.RawDescriptionHelpFormatter
    command.description = "Play traces through strategies and simulated replicas, offline, and compare the strategies."
    command.epilog = EXAMPLES
    _add_grid(command.add_argument_group("what is compared"))
    _add_replicas(command.add_argument_group("the replicas"))
    _add_knowledge(command.add_argument_group("what the gateways know"))
    _add_results(command.add_argument_group("what comes of it"))


def _add_grid(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    usual = Scenario()
    add(
        "--trace",
        type=_words,
        default=["conversation"],
        metavar="TRACE[,...]",
        help=f"a file (Mooncake's format, dialogues or a decision log) or one of {', '.join(generator.KINDS)}, which "
        "are made up; default: conversation",
    )
    add(
        "--strategy",
        type=_words,
        default=[ALL],
        metavar="NAME[,...]",
        help="a strategy, rival:NAME, or either with @option=value; ours, rivals and all are groups; default: all",
    )
    add(
        "--option",
        action="append",
        default=[],
        metavar="NAME.OPTION=VALUE",
        help="an option of a strategy, wherever it is compared; may be repeated",
    )
    add(
        "--baseline",
        default="",
        metavar="NAME",
        help="the one that all are compared to; default: kv_aware where it is compared, else the first one",
    )
    add("--replicas", type=_list(int, 1), default=[usual.replicas], metavar="N[,...]", help="default: 8")
    add(
        "--load",
        type=_list(float, 0.01),
        default=[usual.load],
        metavar="SHARE[,...]",
        help="of what the fleet could do if its replicas shared one cache; default: 0.6",
    )
    add("--seeds", type=_number(int, 1), default=3, metavar="N", help="runs a cell and strategy; default: 3")
    add(
        "--requests",
        type=_number(int, 20),
        default=0,
        metavar="N",
        help="of the trace, a run; default: 250 a replica, and at least 2000",
    )


def _add_replicas(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    usual = EngineOptions()
    blocks = _number(int, 0)
    add(
        "--blocks",
        type=_number(int, 1),
        default=usual.l0_blocks,
        metavar="N",
        help="of 512 tokens, on each GPU; default: 600",
    )
    add("--l1-blocks", type=blocks, default=usual.l1_blocks, metavar="N", help="in each one's CPU memory; default: 0")
    add("--l2-blocks", type=blocks, default=usual.l2_blocks, metavar="N", help="in shared storage; default: 0")
    add("--slow", type=_parts("x"), default=[], metavar="NxSPEED[,...]", help="2x0.6: two have 60 %% of the speed")
    add("--join", type=_parts("@"), default=[], metavar="N@WHEN[,...]", help="2@0.5: two join, cold, halfway")
    add("--leave", type=_parts("@"), default=[], metavar="N@WHEN[,...]", help="1@0.7: one leaves")


def _add_knowledge(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    usual = Scenario()
    delay_ms = usual.event_delay_s * 1000
    add("--gateways", type=_number(int, 1), default=1, metavar="N", help="which tell each other nothing; default: 1")
    add(
        "--event-delay-ms",
        type=_number(float, 0),
        default=delay_ms,
        metavar="MS",
        help="from a change of a cache to the gateways' index; default: 30",
    )
    add(
        "--probe-s",
        type=_number(float, 0),
        default=usual.probe_s,
        metavar="S",
        help="how old replicas' load reports get at gateways of ours, less where others use a replica, too "
        "(at rivals' 0.05); default: 2",
    )
    add(
        "--streamed",
        type=_number(float, 0, 1),
        default=usual.streamed,
        metavar="SHARE",
        help="of the requests: of others no first token is seen; default: 1",
    )
    add(
        "--rate-error",
        type=_number(float, 0.01),
        default=usual.rate_error,
        metavar="FACTOR",
        help="prefill rate that is assumed at first, over the true one; default: 1",
    )
    add("--untold", action="store_true", help="the gateways are not told which replicas are slow")
    add("--no-events", action="store_true", help="replicas publish no KV events")
    add("--l2-estimate", action="store_true", help="ours estimate what lies in shared storage, which no event tells")


def _add_results(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add(
        "--slo-s", type=_number(float, 0), default=SLO_S, metavar="S", help="TTFT above what it takes alone; default: 2"
    )
    add(
        "--out",
        type=Path,
        metavar="DIR",
        help="for report.html, runs.csv and summary.csv; what is in runs.csv is not run again but reported too",
    )
    add("--afresh", action="store_true", help="make again also the runs that runs.csv has")
    add(
        "--processes",
        type=_number(int, 1),
        default=os.cpu_count() or 1,
        metavar="N",
        help="at once; changes no figure; default: one a core",
    )


def _words(text: str) -> list[str]:
    words = [word.strip() for word in text.split(",") if word.strip()]
    if not words:
        raise argparse.ArgumentTypeError("names nothing")
    return words


def _number(kind: type[_Number], least: float, most: float = float("inf")) -> Callable[[str], _Number]:
    def read(text: str) -> _Number:
        try:
            number = kind(text)
        except ValueError:
            number = kind(-1)
        if not least <= number <= most or math.isinf(number):
            what = _KINDS[kind.__name__]
            limits = f"from {least:g} to {most:g}" if most < float("inf") else f"of at least {least:g}"
            raise argparse.ArgumentTypeError(f"{text!r} is not {what} {limits}")
        return number

    return read


def _list(kind: type[_Number], least: float) -> Callable[[str], list[_Number]]:
    read = _number(kind, least)
    return lambda text: list(dict.fromkeys(read(word) for word in _words(text)))


def _parts(between: str) -> Callable[[str], list[Part]]:
    most = 1.0 if between == "@" else float("inf")
    count, number = _number(int, 1), _number(float, 0.0 if between == "@" else 0.01, most)

    def read(text: str) -> list[Part]:
        parts = []
        for word in _words(text):
            replicas, found, rest = word.partition(between)
            if not found:
                raise argparse.ArgumentTypeError(f"{word!r} is not like 2{between}0.5")
            parts.append(Part(count(replicas), number(rest)))
        return parts

    return read
