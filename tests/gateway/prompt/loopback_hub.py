"""A model hub on loopback: as much of the Hugging Face API as a snapshot download needs."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

COMMIT = "c" * 40


class HubServer(ThreadingHTTPServer):
    """Serves ``files`` of one repository, ``Org/Model``, and notes which were fetched."""

    daemon_threads = True

    def __init__(self, files: Mapping[str, bytes]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.files = files
        self.fetched: list[str] = []

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: HubServer
    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path.startswith("/api/models/Org/Model/tree/"):
            entries = [
                {"type": "file", "path": name, "size": len(data), "oid": hashlib.sha1(data).hexdigest()}
                for name, data in self.server.files.items()
            ]
            self._answer(200, json.dumps(entries).encode())
        elif path.startswith("/api/models/Org/Model"):
            siblings = [{"rfilename": name} for name in self.server.files]
            self._answer(200, json.dumps({"id": "Org/Model", "sha": COMMIT, "siblings": siblings}).encode())
        else:
            self._serve_file(path.removeprefix(f"/Org/Model/resolve/{COMMIT}/"))

    def _serve_file(self, name: str) -> None:
        data = self.server.files.get(name)
        if data is None:
            self._answer(404, b"", {"X-Error-Code": "RepoNotFound"})
            return
        if self.command == "GET":
            self.server.fetched.append(name)
        self._answer(200, data, {"ETag": f'"{hashlib.sha1(data).hexdigest()}"', "X-Repo-Commit": COMMIT})

    def _answer(self, status: int, data: bytes, headers: Mapping[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(data)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(data)

    def log_message(self, *args: object) -> None:
        """Tests say enough."""


@contextmanager
def running_hub(files: Mapping[str, bytes]) -> Iterator[HubServer]:
    with HubServer(files) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()
