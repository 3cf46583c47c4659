"""What turns prompts into tokens, as the settings say: the same for a gateway and for `prefixway check`."""

from __future__ import annotations

from gateway.fleet.remote_tokenizer import RemoteTokenizer
from gateway.prompt.encoders import EncoderRegistry
from gateway.prompt.tokenizer_hub import TokenizerHub
from gateway.setting_field import SettingsError
from gateway.settings import Settings


def encoders_of(settings: Settings, remote: RemoteTokenizer) -> EncoderRegistry:
    """``remote``: asked where no tokenizer is found. Raises ``SettingsError``."""
    try:
        return EncoderRegistry(
            settings.tokenizer,
            hub=TokenizerHub(),
            remote=remote.tokenize,
            max_prompt_chars=settings.max_prompt_chars,
        )
    except ValueError as error:
        raise SettingsError(f"PREFIXWAY_TOKENIZER: {error}") from error
