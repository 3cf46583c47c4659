"""``python -m loadtest``: ``replica`` and ``load`` are the parts of the demo; ``replay`` compares strategies."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import signal
import sys
from collections.abc import Coroutine, Sequence
from pathlib import Path

from loadtest.closed_loop import ClosedLoop, percentile
from loadtest.replay.arguments import add_replay_arguments
from loadtest.replica import ReplicaOptions, SimulatedReplica, Speeds
from loadtest.replica.kv_events import EventDialect
from loadtest.replica.model_folder import DEFAULT_FOLDER, ModelFolder
from loadtest.workload import Workload


def main(argv: Sequence[str] | None = None) -> None:
    """Run the named part until it ends, SIGTERM or Ctrl-C. A replay exits with its own code."""
    arguments = parser().parse_args(argv)
    if arguments.command == "replay":
        from loadtest.replay.command import run_replay  # noqa: PLC0415 - the other parts start without the router

        sys.exit(run_replay(arguments, sys.argv[1:] if argv is None else argv))
    run = serve_replica(arguments) if arguments.command == "replica" else play_load(arguments)
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_until_terminated(run))


async def _until_terminated(run: Coroutine[None, None, None]) -> None:
    """Heed SIGTERM, which the first process of a container does not do by itself."""
    task = asyncio.ensure_future(run)
    with contextlib.suppress(NotImplementedError, RuntimeError):  # elsewhere than on Unix, or not the main thread
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        await task


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(prog="python -m loadtest", description=__doc__)
    commands = top.add_subparsers(dest="command", required=True)
    _add_replica(commands.add_parser("replica", help="a simulated vLLM server"))
    _add_load(commands.add_parser("load", help="play conversations against an OpenAI server"))
    add_replay_arguments(commands.add_parser("replay", help="compare strategies on a trace, offline"))
    return top


def replica_options(arguments: argparse.Namespace) -> ReplicaOptions:
    """What the command line asks for."""
    speeds = Speeds(
        prefill_tokens_per_s=arguments.prefill_tokens_per_s,
        max_running=arguments.max_running,
        time_scale=arguments.time_scale,
    )
    return ReplicaOptions(
        model=arguments.model,
        folder=arguments.folder,
        loras=tuple(arguments.lora),
        host=arguments.host,
        port=arguments.port,
        block_size=arguments.block_size,
        capacity_blocks=arguments.blocks,
        max_model_len=arguments.max_model_len,
        ranks=arguments.ranks,
        speeds=speeds,
        kv_events=not arguments.no_kv_events,
        events_endpoint=arguments.events,
        replay_endpoint=arguments.replay,
        event_dialect=EventDialect[arguments.event_dialect],
        metrics_dialect=arguments.metrics_dialect,
    )


async def serve_replica(arguments: argparse.Namespace) -> None:
    async with SimulatedReplica(replica_options(arguments)) as replica:
        endpoints = f"events {replica.publisher.endpoint} replay {replica.publisher.replay_endpoint}"
        print(f"{replica.url} {endpoints}", flush=True)
        await asyncio.get_running_loop().create_future()


async def play_load(arguments: argparse.Namespace) -> None:
    workload = Workload(dialogues=arguments.dialogues, turns=arguments.turns)
    words = ModelFolder().words
    for played in itertools.count(1):
        load = ClosedLoop(arguments.url, arguments.model, seed=arguments.seed + played)
        await load.run(workload.generate(words, arguments.seed + played - 1))
        print(report(load), flush=True)
        if played == arguments.rounds:
            return


def report(load: ClosedLoop) -> str:
    """What a load got, in three lines."""
    answered = [sample for sample in load.samples if not sample.error]
    prompt_tokens = sum(sample.prompt_tokens for sample in answered)
    cached_tokens = sum(sample.cached_tokens for sample in answered)
    ttfts = [sample.ttft_s for sample in answered]
    return (
        f"{len(answered)} answered, {len(load.samples) - len(answered)} not\n"
        f"cached {cached_tokens / max(1, prompt_tokens):.1%} of {prompt_tokens:,} prompt tokens\n"
        f"TTFT p50 {percentile(ttfts, 0.5):.3f} s, p90 {percentile(ttfts, 0.9):.3f} s"
    )


def _add_replica(command: argparse.ArgumentParser) -> None:
    defaults = ReplicaOptions()
    add = command.add_argument
    add("--host", default=defaults.host)
    add("--port", type=int, default=8000)
    add("--model", default=defaults.model, help="the name it serves")
    add("--folder", type=Path, default=DEFAULT_FOLDER, help="tokenizer.json and tokenizer_config.json")
    add("--lora", action="append", default=[], help="the name of an adapter; may be repeated")
    add("--block-size", type=int, default=defaults.block_size, help="tokens")
    add("--blocks", type=int, default=defaults.capacity_blocks, help="size of the cache")
    add("--max-model-len", type=int, default=defaults.max_model_len, help="tokens")
    add("--ranks", type=int, default=1, help="data-parallel ranks")
    add("--events", default=defaults.events_endpoint, help="where to publish KV events")
    add("--replay", default=defaults.replay_endpoint, help="where to replay them")
    add("--no-kv-events", action="store_true")
    add("--event-dialect", choices=[dialect.name for dialect in EventDialect], default="V0_32")
    add("--metrics-dialect", choices=["0.32", "0.8"], default="0.32")
    add("--prefill-tokens-per-s", type=float, default=defaults.speeds.prefill_tokens_per_s)
    add("--max-running", type=int, default=defaults.speeds.max_running)
    add("--time-scale", type=float, default=1.0, help="0: as fast as it goes")


def _add_load(command: argparse.ArgumentParser) -> None:
    defaults = Workload()
    add = command.add_argument
    add("url", nargs="+", help="a server, without /v1; of several each turn takes one")
    add("--model", default="simulated")
    add("--dialogues", type=int, default=defaults.dialogues)
    add("--turns", type=int, default=defaults.turns)
    add("--seed", type=int, default=1)
    add("--rounds", type=int, default=1, help="of new conversations, one after another; 0: until it is stopped")


if __name__ == "__main__":
    main()
