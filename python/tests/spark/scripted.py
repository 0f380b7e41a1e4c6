"""A small API on loopback that does as a test says: pages of records, gates that hold an answer, faults."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from api import Answering

PER_PAGE = 100
# A test that waits longer than this has failed; a machine that is busy has not.
PATIENCE = 60


@dataclass(frozen=True)
class Request:
    """A request that came in."""

    table: str
    query: dict[str, str]
    token: str


class Gate:
    """Holds the first answer that comes to it, until it is opened."""

    def __init__(self) -> None:
        self._reached = threading.Event()
        self._open = threading.Event()

    def hold(self) -> None:
        self._reached.set()
        assert self._open.wait(PATIENCE), "nobody opened the gate"

    def wait(self) -> None:
        """Waits until somebody stands before it."""
        assert self._reached.wait(PATIENCE), "nobody came to the gate"

    def open(self) -> None:
        self._open.set()


class Api:
    """`GET /<table>?cursor=&since=&until=&<field>=` answers `{"rows": [...], "next": ...}`; every request is kept."""

    def __init__(self) -> None:
        self.tables: dict[str, list[dict[str, Any]]] = {}
        self.requests: list[Request] = []
        self._gates: dict[tuple[str, int], Gate] = {}
        self._faults: Counter[tuple[str, int]] = Counter()
        self._visits: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self.base = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def hold(self, table: str, page: int) -> Gate:
        """Holds the next answer with that page of the table, or the visitor of that number to a `pause`."""
        gate = self._gates[table, page] = Gate()
        return gate

    def fail(self, table: str, page: int, times: int = 1) -> None:
        """Answers that page with a 500 so many times."""
        self._faults[table, page] += times

    def requested(self, table: str) -> list[Request]:
        return [request for request in self.requests if request.table == table]

    def stop(self) -> None:
        for gate in list(self._gates.values()):
            gate.open()
        self._server.shutdown()
        self._server.server_close()

    def pause(self, name: str) -> None:
        """A visitor, whom the gate of its number holds."""
        with self._lock:
            number = self._visits[name]
            self._visits[name] += 1
        self._pass(name, number)

    def answer(self, request: Request) -> tuple[int, dict[str, Any]]:
        page = int(request.query.get("cursor", "0"))
        # What stands there when the request comes in: a gate holds the answer, not the question.
        rows = [row for row in self.tables[request.table] if _is_wanted(row, request.query)]
        with self._lock:
            self.requests.append(request)
            fails = self._faults[request.table, page] > 0
            self._faults[request.table, page] -= fails
        self._pass(request.table, page)
        if fails:
            return 500, {"error": "scripted"}
        begin = page * PER_PAGE
        more = begin + PER_PAGE < len(rows)
        return 200, {"rows": rows[begin : begin + PER_PAGE], "next": page + 1 if more else None}

    def _pass(self, name: str, number: int) -> None:
        with self._lock:
            gate = self._gates.pop((name, number), None)
        if gate:
            gate.hold()


def _is_wanted(row: dict[str, Any], query: dict[str, str]) -> bool:
    if row.get("at") is not None and not query.get("since", "") <= row["at"] <= query.get("until", "~"):
        return False
    return all(str(row[name]) == value for name, value in query.items() if name in row)


def _handler(api: Api) -> type[BaseHTTPRequestHandler]:
    class Handler(Answering):
        def do_GET(self) -> None:
            url = urlsplit(self.path)
            name = url.path.strip("/")
            if name.startswith("pause-"):
                api.pause(name)
                self.reply(200, {})
            else:
                token = self.headers.get("authorization", "").removeprefix("Bearer ")
                self.reply(*api.answer(Request(name, dict(parse_qsl(url.query)), token)))

    return Handler
