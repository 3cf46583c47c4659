"""ApiError: what vLLM answers to a request it will not serve, in its JSON shape."""

from __future__ import annotations

import json


class ApiError(Exception):
    """An error answer. ``kind`` is the ``type`` field; ``code`` repeats the status, as vLLM's does."""

    def __init__(self, status: int, message: str, kind: str, param: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.kind = kind
        self.param = param

    @classmethod
    def bad_request(cls, message: str, param: str | None = None) -> ApiError:
        return cls(400, message, "BadRequestError", param)

    @classmethod
    def invalid(cls, field: str, kind: str, message: str, value: object) -> ApiError:
        """One validation error of one body field, as pydantic's are reported."""
        location = f"body.{field}"
        detail = {"type": kind, "loc": location, "msg": message, "input": value}
        return cls(400, f"1 validation error:\n  {detail}", "Bad Request", location)

    @classmethod
    def require_text(cls, text: str) -> None:
        """Raise where ``text`` has half a character: JSON can carry one, pydantic refuses it."""
        if any("\ud800" <= character <= "\udfff" for character in text):
            raise cls.bad_request("Input should be a valid string, unable to parse raw data as a unicode string")

    @classmethod
    def unknown_model(cls, model: str, served: str) -> ApiError:
        message = f"The model `{model}` does not exist. Valid aliases: {served}."
        return cls(404, message, "NotFoundError", "model")

    @classmethod
    def too_long(cls, tokens: int, limit: int) -> ApiError:
        message = (
            f"This model's maximum context length is {limit} tokens. However, your prompt contains {tokens} "
            "input tokens, which exceeds this limit even without any output tokens. Please reduce the length "
            f"of the input prompt. (parameter=input_tokens, value={tokens})"
        )
        return cls.bad_request(message, "input_tokens")

    def body(self) -> bytes:
        error = {"message": self.message, "type": self.kind, "param": self.param, "code": self.status}
        return json.dumps({"error": error}, ensure_ascii=False, separators=(",", ":")).encode()


#: What an injected status says, as vLLM 0.32 says it where it can answer so.
FAULT_MESSAGES = {
    429: ("Too many requests.", "Too Many Requests"),
    500: (
        "EngineCore encountered an issue. See stack trace (above) for the root cause.",
        "InternalServerError",
    ),
    503: (
        "The engine is currently busy and cannot accept new requests. Please try again later.",
        "Service Unavailable",
    ),
}


def fault_error(status: int) -> ApiError:
    message, kind = FAULT_MESSAGES.get(status, ("Injected fault.", "InternalServerError"))
    return ApiError(status, message, kind)
