"""InferenceRequest: what routing needs from a request body. Knows the fields, no template, no tokenizer.

The raw bytes go to the replica untouched, so this never validates for the engine: only what cannot be read at all (no
JSON object, no multipart form), and a ``model`` that is no text, is refused here. Everything else that looks odd is
routed without a prompt (``unrendered``) and judged by the engine.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from gateway.errors import BadRequest
from gateway.prompt.chat_prompt import ChatPrompt
from gateway.prompt.form_body import FormBody
from gateway.prompt.json_body import JsonBody, is_unicode, read_flag
from gateway.prompt.unrendered import Unrendered

Prompt = str | tuple[int, ...]

_DEFAULT_COMPLETION_TOKENS = 16  # OpenAI's, and vLLM's, max_tokens of /v1/completions
_WITHOUT_ENGINE = frozenset({"tokenize", "render", ""})  # "": of no inference
_WITHOUT_OUTPUT = frozenset({"embeddings", "pooling", "scoring", "tokenize", "render"})
#: Without any of these a prompt is what it looks like, and ``usage`` says what the prefix cache held of it.
_UNUSUAL = frozenset(
    {"cache_salt", "echo", "kv_transfer_params", "n", "prompt_embeds", "prompt_logprobs"}
    | {"truncate_prompt_tokens", "use_beam_search"}
)


@dataclass(slots=True, eq=False)
class InferenceRequest:
    """Nobody changes one that was parsed. ``unrendered`` and ``incomparable`` are labels of metrics: words of ours,
    never client text.

    The prompt is read when it is first asked for (:attr:`chat`, :attr:`prompts`, :attr:`unrendered`): a strategy that
    does not look at prompts does not pay for them.
    """

    route: str  # "chat" | "completions" | "other": what the prompt is made of
    model: str = ""  # as replicas know it; "": the body names none
    stream: bool = False
    add_special_tokens: bool = True
    cache_salt: str = ""
    session: str = ""
    reads_cache: bool = True  # False: vLLM computes the whole prompt, cached or not
    incomparable: str = ""  # why cached_tokens will not say what the prefix cache held
    max_tokens: int | None = None
    includes_usage: bool = True
    size: int = 0  # bytes of the body: no prompt has more characters
    response_id: str = ""  # of the stored response that it asks for, or goes on from
    stores_response: bool = True  # of responses: False: nobody can ask for it, or go on from it
    is_outline: bool = False  # its body has too many values to be read whole
    alias: str = ""  # what the client called ``model``, where that is an alias
    form: FormBody | None = None  # the body, if it is one
    asks_engine: bool = True  # False: a server whose engine hangs may well answer it
    _unrendered: str = ""
    _prompts: tuple[Prompt, ...] = ()
    _chat: ChatPrompt | None = None
    _unread: JsonBody | None = None

    @classmethod
    def parse(
        cls,
        kind: str,
        body: bytes,
        *,
        session: str = "",
        content_type: bytes = b"",
        response_id: str = "",
    ) -> Self:
        """``kind``: of the route. ``session``: from a header; it wins over the body's ``session_id``.
        ``response_id``: from the path.

        Raises :class:`BadRequest` if the body cannot be read: no JSON object, or of audio no multipart form. A route
        that only a setting allows may have any.
        """
        if kind == "chat":
            return cls._of_chat(JsonBody.parse(body), session)
        if kind == "completions":
            return cls._of_completions(JsonBody.parse(body), session)
        if kind == "audio":
            return cls._of_upload(FormBody.parse(body, content_type), session)
        if kind == "response":
            return cls._other(0, session=session, response_id=response_id, asks_engine=False)
        if kind == "control":
            return cls._of_anything(body, session)
        fields = JsonBody.parse(body)
        if kind == "invocations":
            return cls._of_invocation(fields, session)
        return cls._of_fields(kind, fields, session)

    @property
    def unrendered(self) -> str:
        """Why the prompt cannot be known; "": it can."""
        if self._unread is not None:
            self._read_prompt(self._unread)
        return self._unrendered

    @property
    def prompts(self) -> tuple[Prompt, ...]:
        """Of completions."""
        if self._unread is not None:
            self._read_prompt(self._unread)
        return self._prompts

    @property
    def chat(self) -> ChatPrompt | None:
        if self._unread is not None:
            self._read_prompt(self._unread)
        return self._chat

    def forget_body(self) -> None:
        """Its prompt will not be asked for any more."""
        self._unread = None

    def _read_prompt(self, body: JsonBody) -> None:
        try:
            if self.route == "chat":
                self._chat = ChatPrompt.parse(body)
            else:
                self._prompts = _read_prompts(body.get("prompt"))
        except Unrendered as unknown:
            self._unrendered = unknown.reason
        self._unread = None

    # By what a body is

    @classmethod
    def _of_chat(cls, body: JsonBody, session: str) -> Self:
        tokens = body.integer("max_completion_tokens")
        request = cls("chat", max_tokens=body.integer("max_tokens") if tokens is None else tokens)
        request.add_special_tokens = body.flag("add_special_tokens", default=False)
        return request._with_prompt(body, session, prompts=1)

    @classmethod
    def _of_completions(cls, body: JsonBody, session: str) -> Self:
        tokens, prompt = body.integer("max_tokens"), body.get("prompt")
        request = cls("completions", max_tokens=_DEFAULT_COMPLETION_TOKENS if tokens is None else tokens)
        request.add_special_tokens = body.flag("add_special_tokens", default=True)
        several = isinstance(prompt, list) and prompt and not isinstance(prompt[0], int)
        return request._with_prompt(body, session, prompts=len(prompt) if several else 1)

    def _with_prompt(self, body: JsonBody, session: str, *, prompts: int) -> Self:
        """The fields that chat and completions share."""
        self._common(body, session)
        self.includes_usage = not self.stream or _asks_for_usage(body.get("stream_options"))
        if body.is_outline:
            self._unrendered = "too_long"
        else:
            self._unread = body
        if not _UNUSUAL.isdisjoint(body.fields):
            self._look_closer(body)
        if not self.incomparable:
            self.incomparable = "several_prompts" if prompts > 1 else "" if self.includes_usage else "no_usage"
        return self

    def _common(self, body: JsonBody, session: str) -> None:
        """The fields that all share."""
        self.model = _model(body)
        self.stream = body.flag("stream", default=False)
        self.session = session or body.text("session_id")
        self.size = body.size
        self.is_outline = body.is_outline

    def _look_closer(self, body: JsonBody) -> None:
        """A prompt that is not what it looks like, or of which ``usage`` tells something else."""
        logprobs = body.fields.get("top_logprobs", 0) if self.route == "chat" else body.get("logprobs")
        echoes_logprobs = logprobs is not None and body.flag("echo", default=False)
        wants_logprobs = body.get("prompt_logprobs") is not None
        self.cache_salt = body.text("cache_salt")
        self.reads_cache = not (wants_logprobs or echoes_logprobs)
        self.incomparable = _why_incomparable(body, wants_logprobs, echoes_logprobs)
        if unknown := _why_unknown(body):
            self._unrendered, self._unread = unknown, None

    @classmethod
    def _of_fields(cls, kind: str, body: JsonBody, session: str) -> Self:
        """Inference whose prompt is not read."""
        request = cls._other(0, asks_engine=kind not in _WITHOUT_ENGINE)
        request._common(body, session)
        if kind in _WITHOUT_OUTPUT:
            request.max_tokens = 0
            return request
        if kind == "responses":
            request.response_id = body.text("previous_response_id")
            request.stores_response = body.flag("store", default=True)
        limit = body.integer("max_output_tokens")
        request.max_tokens = body.integer("max_tokens") if limit is None else limit
        return request

    @classmethod
    def _of_invocation(cls, body: JsonBody, session: str) -> Self:
        """SageMaker's: vLLM takes it for the first of its requests that it is one of, a chat before all."""
        if body.get("messages") is not None:
            return cls._of_chat(body, session)
        if body.get("prompt") is not None:
            return cls._of_completions(body, session)
        return cls._of_fields("pooling", body, session)

    @classmethod
    def _of_upload(cls, form: FormBody, session: str) -> Self:
        if not form.has_file("file"):
            raise BadRequest("The form has no file named 'file'.", param="file")
        request = cls._other(form.size, session=session)
        request.model, request.max_tokens, request.form = form.text("model"), 0, form
        request.stream = read_flag(form.text("stream"), default=False)
        return request

    @classmethod
    def _of_anything(cls, body: bytes, session: str) -> Self:
        try:
            return cls._of_fields("", JsonBody.parse(body), session)
        except BadRequest:
            return cls._other(len(body), session=session, asks_engine=False)

    @classmethod
    def _other(cls, size: int, *, session: str = "", response_id: str = "", asks_engine: bool = True) -> Self:
        return cls(
            "other",
            session=session,
            incomparable="route",
            includes_usage=False,
            size=size,
            response_id=response_id,
            asks_engine=asks_engine,
            _unrendered="route",
        )


def _model(body: JsonBody) -> str:
    model = body.get("model")
    if model is None:
        return ""
    if not isinstance(model, str) or not is_unicode(model):
        raise BadRequest("'model' must be a string.", param="model")
    return model


def _why_unknown(body: JsonBody) -> str:
    """Why the tokens the engine will compute are not those of the body's prompt."""
    if body.get("cache_salt") is not None and not body.text("cache_salt"):
        return "cache_salt"
    truncation = body.get("truncate_prompt_tokens")
    if truncation is not None and truncation != -1:  # -1: only a prompt beyond the context length is cut
        return "truncated"
    transfer = body.get("kv_transfer_params")
    if isinstance(transfer, dict) and transfer.get("prompt_token_ids") is not None:
        return "forwarded_tokens"
    return "prompt_embeds" if body.get("prompt_embeds") is not None else ""


def _why_incomparable(body: JsonBody, wants_logprobs: bool, echoes_logprobs: bool) -> str:
    if wants_logprobs:
        return "prompt_logprobs"
    if echoes_logprobs:
        return "echo_logprobs"
    if body.get("truncate_prompt_tokens") is not None:
        return "truncated"
    several = (body.integer("n") or 1) > 1 or body.flag("use_beam_search", default=False)
    return "several_choices" if several else ""


def _asks_for_usage(options: object) -> bool:
    return isinstance(options, dict) and read_flag(options.get("include_usage"), default=False)


def _read_prompts(raw: object) -> tuple[Prompt, ...]:
    """OpenAI's four forms: text, list of texts, token ids, list of lists of token ids."""
    if isinstance(raw, str):
        return (raw,)
    if not isinstance(raw, list) or not raw:
        raise Unrendered("prompt")
    if isinstance(raw[0], int):
        return (_checked_ids(raw),)
    return tuple(prompt if isinstance(prompt, str) else _checked_ids(prompt) for prompt in raw)


def _checked_ids(ids: object) -> tuple[int, ...]:
    if not isinstance(ids, list) or set(map(type, ids)) != {int}:
        raise Unrendered("prompt")
    if min(ids) < 0 or max(ids) >= 1 << 32:
        raise Unrendered("prompt")
    return tuple(ids)
