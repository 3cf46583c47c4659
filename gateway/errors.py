"""What can go wrong, each with the HTTP status and the OpenAI error type a client sees.

    GatewayError
    ├── BadRequest              400  the body cannot be read
    ├── ModelNotFound           404  no replica serves that model
    ├── RouteNotFound           404  this path is not proxied
    ├── ServerNotFound          404  no server has that id
    ├── MethodNotAllowed        405
    ├── OrderConflict           409  an order that cannot be kept beside the others
    ├── BodyTooLarge            413
    ├── HeadersTooLarge         431
    ├── Unauthorized            401
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


class GatewayError(Exception):
    """Base of everything the gateway answers by itself. ``message`` is for the client: no secrets, no prompt."""

    status: ClassVar[int] = 500
    kind: ClassVar[str] = "internal_error"
    retry_after_s: int | None = None

    def __init__(self, message: str, *, param: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        self.code = code

    def body(self) -> bytes:
        """The error as OpenAI's JSON shape."""
        error = {"message": self.message, "type": self.kind, "param": self.param, "code": self.code}
        return json.dumps({"error": error}, ensure_ascii=False).encode()


class BadRequest(GatewayError):
    status = 400
    kind = "invalid_request_error"


class ModelNotFound(GatewayError):
    status = 404
    kind = "invalid_request_error"

    def __init__(self, model: str) -> None:
        super().__init__(f"The model {model!r} does not exist.", param="model", code="model_not_found")


class RouteNotFound(GatewayError):
    status = 404
    kind = "invalid_request_error"


class ServerNotFound(GatewayError):
    status = 404
    kind = "invalid_request_error"


class MethodNotAllowed(GatewayError):
    status = 405
    kind = "invalid_request_error"

    def __init__(self, message: str, allow: str) -> None:
        super().__init__(message)
        self.allow = allow


class OrderConflict(GatewayError):
    status = 409
    kind = "invalid_request_error"


class BodyTooLarge(GatewayError):
    status = 413
    kind = "invalid_request_error"


class HeadersTooLarge(GatewayError):
    status = 431
    kind = "invalid_request_error"


class Unauthorized(GatewayError):
    status = 401
    kind = "authentication_error"


class NoReplica(GatewayError):
    status = 503
    kind = "service_unavailable"

    def __init__(self, message: str, retry_after_s: int = 2) -> None:
        super().__init__(message, code="no_replica")
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
