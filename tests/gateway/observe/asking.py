"""Ask an ASGI app without a socket: these apps answer in one piece."""

from __future__ import annotations

from typing import Any, NamedTuple


class Page(NamedTuple):
    """An answer."""

    status: int
    headers: dict[str, str]
    body: str


async def ask(
    app: Any, path: str, method: str = "GET", headers: dict[str, str] | None = None, body: bytes = b""
) -> Page:
    """One request, one answer."""
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    raw = [(name.lower().encode(), value.encode()) for name, value in (headers or {}).items()]
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": raw,
    }
    await app(scope, receive, send)
    answered = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return Page(sent[0]["status"], answered, b"".join(m.get("body", b"") for m in sent[1:]).decode())
