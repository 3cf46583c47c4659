"""InferenceRequest: what routing needs from a request body. Knows the fields, no template, no tokenizer.

The raw bytes go to the replica untouched, so this never validates for the engine: only what cannot be read at all (no
JSON object, no multipart form), and a ``model`` that is no text, is refused here. Everything else that looks odd is
routed without a prompt (``unrendered``) and judged by the engine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Self

from gateway.errors import BadRequest
from gateway.prompt.anthropic_prompt import read_anthropic
from gateway.prompt.chat_form import read_chat_batch
from gateway.prompt.chat_prompt import ChatPrompt
from gateway.prompt.form_body import FormBody
from gateway.prompt.json_body import JsonBody, is_unicode, read_flag
from gateway.prompt.pooling_prompt import read_pooling
from gateway.prompt.responses_prompt import read_responses
from gateway.prompt.text_prompts import Prompt, read_prompts
from gateway.prompt.unrendered import Unrendered
from gateway.prompt.unusual_fields import unusual

_DEFAULT_COMPLETION_TOKENS = 16  # OpenAI's, and vLLM's, max_tokens of /v1/completions
_WITHOUT_ENGINE = frozenset({"tokenize", "render", ""})  # "": of no inference
_WITHOUT_OUTPUT = frozenset({"scoring", "tokenize", "render"})
#: Fields of SageMaker's route that make a body a ranking or a scoring.
_PAIRS = frozenset({"query", "queries", "documents", "data_1", "text_1"})
_READERS: Mapping[str, Callable[[JsonBody], ChatPrompt | tuple[Prompt, ...]]] = {
    "chat": ChatPrompt.parse,
    "chat_batch": read_chat_batch,
    "completions": lambda body: read_prompts(body.get("prompt")),
    "responses": read_responses,
    "messages": read_anthropic,
    "pooling": read_pooling,
}


@dataclass(slots=True, eq=False)
class InferenceRequest:
    """Nobody changes one that was parsed. ``unrendered`` and ``incomparable`` are labels of metrics: words of ours,
    never client text.

    The prompt is read when it is first asked for (:attr:`chat`, :attr:`prompts`, :attr:`unrendered`): a strategy that
    does not look at prompts does not pay for them.
    """

    route: str  # what the prompt is made of: chat, chat_batch, completions, responses, messages, pooling, or "other"
    model: str = ""  # as replicas know it; "": the body names none
    stream: bool = False
    add_special_tokens: bool = True  # of a pooling it is known once the prompt was read
    cache_salt: str = ""
    session: str = ""
    reads_cache: bool = True  # False: vLLM computes the whole prompt, cached or not
    incomparable: str = ""  # why cached_tokens will not say what the prefix cache held
    max_tokens: int | None = None
    includes_usage: bool = True  # False: nothing will, unless a stream option asks for it
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
        """``kind``: of the route. ``session``: from a header; it wins over what the body names.
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
        return cls._of_json(kind, JsonBody.parse(body), session)

    @classmethod
    def _of_json(cls, kind: str, body: JsonBody, session: str) -> Self:
        if kind == "responses":
            return cls._of_responses(body, session)
        if kind == "chat_batch":
            return cls._of_chats(body, session)
        if kind == "messages":
            return cls._of_messages(body, session)
        if kind in ("embeddings", "pooling"):
            return cls._of_pooling(body, session)
        if kind == "invocations":
            return cls._of_invocation(body, session)
        return cls._of_fields(kind, body, session)

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
            prompt = _READERS[self.route](body)
            if isinstance(prompt, ChatPrompt):
                self._chat = prompt
            else:
                self._prompts = prompt
        except Unrendered as unknown:
            self._unrendered = unknown.reason
        if self.route == "pooling":
            self.add_special_tokens = body.flag("add_special_tokens", default=self._chat is None)
        self._unread = None

    # By what a body is

    @classmethod
    def _of_chat(cls, body: JsonBody, session: str) -> Self:
        tokens = body.integer("max_completion_tokens")
        request = cls("chat", max_tokens=body.integer("max_tokens") if tokens is None else tokens)
        request.add_special_tokens = body.flag("add_special_tokens", default=False)
        return request._with_prompt(body, session, prompts=1)

    @classmethod
    def _of_chats(cls, body: JsonBody, session: str) -> Self:
        """Several at once. They cannot stream."""
        request = cls._of_chat(body, session)
        request.route, request.incomparable = "chat_batch", "several_prompts"
        return request

    @classmethod
    def _of_completions(cls, body: JsonBody, session: str) -> Self:
        tokens, prompt = body.integer("max_tokens"), body.get("prompt")
        request = cls("completions", max_tokens=_DEFAULT_COMPLETION_TOKENS if tokens is None else tokens)
        request.add_special_tokens = body.flag("add_special_tokens", default=True)
        several = isinstance(prompt, list) and prompt and not isinstance(prompt[0], int)
        return request._with_prompt(body, session, prompts=len(prompt) if several else 1)

    @classmethod
    def _of_responses(cls, body: JsonBody, session: str) -> Self:
        """Its usage always tells the cached tokens. vLLM adds special tokens to what a template made of it."""
        request = cls("responses", max_tokens=body.integer("max_output_tokens"))
        request.response_id = body.text("previous_response_id")
        request.stores_response = body.flag("store", default=True)
        return request._readable(body, session)

    @classmethod
    def _of_messages(cls, body: JsonBody, session: str) -> Self:
        """Its streams always end with their usage."""
        return cls("messages", max_tokens=body.integer("max_tokens"), add_special_tokens=False)._readable(body, session)

    @classmethod
    def _of_pooling(cls, body: JsonBody, session: str) -> Self:
        request = cls("pooling", max_tokens=0)._readable(body, session)
        request.incomparable = "pooling"  # its usage never tells the cached tokens
        return request

    def _with_prompt(self, body: JsonBody, session: str, *, prompts: int) -> Self:
        """Chat and completions."""
        self._readable(body, session)
        self.includes_usage = not self.stream or _asks_for_usage(body.get("stream_options"))
        if not self.incomparable:
            self.incomparable = "several_prompts" if prompts > 1 else "" if self.includes_usage else "no_usage"
        return self

    def _readable(self, body: JsonBody, session: str) -> Self:
        """The fields of everything that has a prompt to read."""
        self._common(body, session)
        found = unusual(self.route, body)
        self.cache_salt, self.incomparable, self.reads_cache = found.cache_salt, found.incomparable, found.reads_cache
        self._unrendered = found.unrendered or ("too_long" if body.is_outline else "")
        if not self._unrendered:
            self._unread = body
        return self

    def _common(self, body: JsonBody, session: str) -> None:
        """The fields that all share."""
        self.model = _model(body)
        self.stream = body.flag("stream", default=False)
        self.session = session or _session(body)
        self.size = body.size
        self.is_outline = body.is_outline

    @classmethod
    def _of_fields(cls, kind: str, body: JsonBody, session: str) -> Self:
        """Inference whose prompt is not read."""
        request = cls._other(0, asks_engine=kind not in _WITHOUT_ENGINE)
        request._common(body, session)
        request.max_tokens = 0 if kind in _WITHOUT_OUTPUT else body.integer("max_tokens")
        if kind == "scoring":
            request._unrendered = "pairs"
        return request

    @classmethod
    def _of_invocation(cls, body: JsonBody, session: str) -> Self:
        """SageMaker's: vLLM takes it for the first of its requests that it is one of, a chat before all."""
        if body.get("messages") is not None:
            return cls._of_chat(body, session)
        if body.get("prompt") is not None:
            return cls._of_completions(body, session)
        return cls._of_json("pooling" if _PAIRS.isdisjoint(body.fields) else "scoring", body, session)

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


def _session(body: JsonBody) -> str:
    """What a body calls its session, else what comes nearest to one: all of one cache key's, or of one user's."""
    named = body.text("session_id") or body.text("prompt_cache_key") or body.text("user")
    if named:
        return named
    metadata = body.get("metadata")  # Anthropic's has the user, and some agents' the session
    user = metadata.get("user_id") if isinstance(metadata, dict) else None
    return user if isinstance(user, str) and is_unicode(user) else ""


def _asks_for_usage(options: object) -> bool:
    return isinstance(options, dict) and read_flag(options.get("include_usage"), default=False)
