"""What can go wrong, each with the HTTP status and the OpenAI error type a client sees.

    GatewayError
    ├── GatewayFault            500  a fault of our own
    ├── BadRequest              400  the body cannot be read
    ├── ModelNotFound           404  no replica serves that model
    ├── RouteNotFound           404  this path is not proxied
    ├── RouteNotAllowed         403  this path is not proxied unless a setting allows it
    ├── ForeignPage             403  a web page may have made somebody's browser ask the admin port
    ├── ResponseNotFound        404  no replica is known to hold that stored response
    ├── ServerNotFound          404  no server has that id
    ├── MethodNotAllowed        405
    ├── OrderConflict           409  an order that cannot be kept beside the others
    ├── RequestTimeout          408  the client stopped in the middle of its request
    ├── BodyTooLarge            413
    ├── HeadersTooLarge         431
    ├── Unauthorized            401
    ├── Overloaded              429  no place at the replicas, and none in the queue; with Retry-After
    ├── QueueTimeout            503  a place did not come free in time; with Retry-After
    ├── UploadsFull             503  no memory for another upload; with Retry-After
    ├── NoReplica               503  nothing healthy to send it to; says why, with Retry-After
    ├── OrdersUnavailable       503  Redis does not take an order
    ├── Stopping                503  the gateway ends before the answer does
    ├── ReplicaUnreachable      502  every attempt broke before the first body byte
    └── ReplicaTimeout          504

An error answer that a replica gave is not here: it passes to the client untouched.
"""

from __future__ import annotations

import json
from typing import ClassVar

_SHOWN_NAME_CHARS = 128  # of a name that a client made up


class GatewayError(Exception):
    """Base of everything the gateway answers by itself. ``message`` is for any client: no secrets, no prompt.

    ``detail`` goes on from it with what only those may read who are shown the receipt: the fleet's insides.
    """

    status: ClassVar[int] = 500
    kind: ClassVar[str] = "internal_error"
    retry_after_s: int | None = None
    detail: str = ""

    def __init__(self, message: str, *, param: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        self.code = code

    def fields(self, *, detailed: bool = False) -> dict[str, str | None]:
        """What OpenAI's clients read of an error."""
        message = f"{self.message} {self.detail}" if detailed and self.detail else self.message
        return {"message": message, "type": self.kind, "param": self.param, "code": self.code}

    def body(self, *, detailed: bool = False) -> bytes:
        """The error as OpenAI's JSON shape. ``type`` beside it is what makes Anthropic's clients see it, too."""
        return json.dumps({"error": self.fields(detailed=detailed), "type": "error"}, ensure_ascii=False).encode()

    def headers(self) -> list[tuple[bytes, bytes]]:
        """What belongs into the answer's head because of the error: Retry-After, Allow, WWW-Authenticate."""
        return [] if self.retry_after_s is None else [(b"retry-after", b"%d" % self.retry_after_s)]


class GatewayFault(GatewayError):
    def __init__(self) -> None:
        super().__init__("The gateway failed.", code="gateway_fault")


class BadRequest(GatewayError):
    status = 400
    kind = "invalid_request_error"


class ModelNotFound(GatewayError):
    status = 404
    kind = "invalid_request_error"

    def __init__(self, model: str, alias: str = "") -> None:
        """``alias``: the name that was asked for, where it stands for ``model``."""
        behind = f", which {alias!r} stands for," if alias else ""
        name = model[:_SHOWN_NAME_CHARS]
        super().__init__(f"The model {name!r}{behind} does not exist.", param="model", code="model_not_found")


class RouteNotFound(GatewayError):
    status = 404
    kind = "invalid_request_error"


class RouteNotAllowed(GatewayError):
    status = 403
    kind = "invalid_request_error"

    def __init__(self, path: str) -> None:
        super().__init__(f"{path} is refused unless PREFIXWAY_ALLOW_ROUTES names it.", code="route_not_allowed")


class ForeignPage(GatewayError):
    status = 403
    kind = "invalid_request_error"

    def __init__(self) -> None:
        super().__init__(
            "Without PREFIXWAY_ADMIN_TOKEN only localhost or an IP address may be asked, and by no other web page.",
            code="foreign_page",
        )


class ResponseNotFound(GatewayError):
    status = 404
    kind = "invalid_request_error"

    def __init__(self) -> None:
        super().__init__("No replica is known to hold this response.", param="response_id", code="response_not_found")


class ServerNotFound(GatewayError):
    status = 404
    kind = "invalid_request_error"


class MethodNotAllowed(GatewayError):
    status = 405
    kind = "invalid_request_error"

    def __init__(self, message: str, allow: str) -> None:
        super().__init__(message)
        self.allow = allow

    def headers(self) -> list[tuple[bytes, bytes]]:
        return [(b"allow", self.allow.encode())]


class OrderConflict(GatewayError):
    status = 409
    kind = "invalid_request_error"


class RequestTimeout(GatewayError):
    status = 408
    kind = "invalid_request_error"

    def __init__(self) -> None:
        super().__init__("The rest of the request did not come in time.", code="request_timeout")


class BodyTooLarge(GatewayError):
    status = 413
    kind = "invalid_request_error"


class HeadersTooLarge(GatewayError):
    status = 431
    kind = "invalid_request_error"


class Unauthorized(GatewayError):
    status = 401
    kind = "authentication_error"

    def headers(self) -> list[tuple[bytes, bytes]]:
        return [(b"www-authenticate", b"Bearer")]  # RFC 9110, 11.6.1: a 401 must name a scheme


class Overloaded(GatewayError):
    status = 429
    kind = "rate_limit_error"

    def __init__(self, retry_after_s: int) -> None:
        super().__init__("Too many requests are waiting already. Please try again later.", code="rate_limit_exceeded")
        self.retry_after_s = retry_after_s


class QueueTimeout(GatewayError):
    status = 503
    kind = "service_unavailable"

    def __init__(self, waited_s: float, retry_after_s: int) -> None:
        super().__init__(f"No replica had room for the request within {waited_s:g} s.", code="queue_timeout")
        self.retry_after_s = retry_after_s


class UploadsFull(GatewayError):
    status = 503
    kind = "service_unavailable"

    def __init__(self) -> None:
        super().__init__("Too many requests are being uploaded. Please try again later.", code="uploads_full")
        self.retry_after_s = 1


class NoReplica(GatewayError):
    status = 503
    kind = "service_unavailable"

    def __init__(self, message: str, detail: str = "", retry_after_s: int = 2) -> None:
        super().__init__(message, code="no_replica")
        self.detail = detail
        self.retry_after_s = retry_after_s


class OrdersUnavailable(GatewayError):
    status = 503
    kind = "service_unavailable"

    def __init__(self, message: str) -> None:
        super().__init__(message, code="redis_unavailable")
        self.retry_after_s = 1


class Stopping(GatewayError):
    status = 503
    kind = "service_unavailable"

    def __init__(self) -> None:
        super().__init__("The gateway is stopping.", code="stopping")
        self.retry_after_s = 1


class ReplicaUnreachable(GatewayError):
    status = 502
    kind = "bad_gateway"


class ReplicaTimeout(GatewayError):
    status = 504
    kind = "gateway_timeout"
