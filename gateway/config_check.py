"""Checks of the configuration alone, which ask no replica: what ``prefixway check --config-only`` does."""

from __future__ import annotations

from collections.abc import Iterator

from jinja2 import TemplateError

from gateway.check.verdict import Verdict, fine, skipped, wrong
from gateway.edge_parts import tls_of
from gateway.fleet.replica_pool import ReplicaPool
from gateway.fleet_parts import discovery_of, probes_of
from gateway.prompt.chat_template import ChatTemplate
from gateway.prompt.tokenizer import load_tokenizer
from gateway.prompt.tokenizer_files import TokenizerNotFound
from gateway.prompt.tokenizer_finder import TokenizerFinder
from gateway.prompt.tokenizer_hub import TokenizerHub
from gateway.setting_field import SettingsError
from gateway.settings import Settings, check_redis_client


def check_config(settings: Settings) -> Iterator[Verdict]:
    """Raises ``SettingsError`` for what would stop a start, and for names that are no setting."""
    if settings.unknown:
        raise SettingsError("; ".join(settings.unknown))
    if settings.uses_redis:
        check_redis_client(settings)
    pool = ReplicaPool()
    discovery_of(settings, pool, lambda: 0.0)
    probes_of(settings, pool, lambda: 0.0)
    tls_of(settings)
    yield fine("settings", "", f"strategy {settings.strategy}, {len(settings.model_aliases)} aliases")
    yield _replicas(settings, pool)
    yield from _check_tokenizers(settings.tokenizer)


def _replicas(settings: Settings, pool: ReplicaPool) -> Verdict:
    if settings.discovery.kind != "static":
        return fine("replicas", "", f"looked up when it runs: {settings.discovery}")
    count = len(pool.servers)
    return fine("replicas", "", f"{count} named") if count else skipped("replicas", "", "none is named")


def _check_tokenizers(spec: str) -> Iterator[Verdict]:
    try:
        finder = TokenizerFinder(spec, TokenizerHub())
    except ValueError as error:
        raise SettingsError(f"PREFIXWAY_TOKENIZER: {error}") from error
    if not finder.stated:
        yield skipped("tokenizer", "", "auto: where it is, the replicas tell")
    for model in finder.stated:
        yield _check_tokenizer(finder, model)


def _check_tokenizer(finder: TokenizerFinder, model: str) -> Verdict:
    of = f"of {model}: " if model else ""
    try:
        found = finder.find(model, "")
        load_tokenizer(found.files)
        for source in found.files.chat_templates.values():
            ChatTemplate(source, found.files.special_tokens)
    except TokenizerNotFound as error:
        return wrong("tokenizer", "", "tokenizer_absent", f"{of}{error}")
    except TemplateError as error:
        return wrong("tokenizer", "", "tokenizer_absent", f"{of}a chat template: {error}")
    templates = len(found.files.chat_templates)
    return fine("tokenizer", "", f"{of}loads, with {templates} chat templates")
