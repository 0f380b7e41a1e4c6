"""A scripted API on loopback: it answers what a test says, and remembers what it was asked."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

#: What an answer is made from: the path and the parameters of a request. An int is a status, anything else a JSON body.
Answer = Callable[[str, dict[str, str]], Any]


class Api:
    """Answers requests one after the other or side by side, until its block ends."""

    def __init__(self) -> None:
        self.answer: Answer = lambda path, params: 404
        self.requests: list[tuple[str, dict[str, str]]] = []
        self.headers: list[dict[str, str]] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Api:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def serves_pages(self, rows: list[dict[str, Any]], size: int) -> None:
        """Pages of `size` rows, each with the cursor of the next."""

        def answer(path: str, params: dict[str, str]) -> Any:
            start = int(params.get("cursor", "0"))
            end = start + size
            return {"items": rows[start:end], "next": str(end) if end < len(rows) else None}

        self.answer = answer

    def _handler(api) -> type[BaseHTTPRequestHandler]:  # noqa: N805
        class Handler(Answering):
            def do_GET(self) -> None:
                url = urlsplit(self.path)
                params = {name: values[-1] for name, values in parse_qs(url.query, keep_blank_values=True).items()}
                api.requests.append((url.path, params))
                api.headers.append({name.lower(): value for name, value in self.headers.items()})
                answer = api.answer(url.path, params)
                if isinstance(answer, int):
                    self.reply(answer, {})
                else:
                    self.reply(200, answer)

        return Handler


class Answering(BaseHTTPRequestHandler):
    """Answers in JSON, over connections that stay."""

    protocol_version = "HTTP/1.1"

    def reply(self, status: int, body: Any) -> None:
        data = json.dumps(body).encode()
        try:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)
        except ConnectionError:
            # Whoever asked has gone: a read that was cancelled, a process that was killed.
            self.close_connection = True

    def log_message(self, *_: object) -> None:
        pass
