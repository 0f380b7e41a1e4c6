#!/usr/bin/env python3
"""A loopback server of pages that were rendered once: as many as asked for, by repeating a few.

    python3 benches/pages.py [--port N] [--records 5000] [--distinct 4] [--fresh 2]
                                        prints its address, serves until terminated; --fresh renders each page when it is
                                        asked for, in so many processes

    /KIND/STYLE/PAGES[/WAIT[/gzip]]     KIND    taxi, taxi-messy, lineitem, lineitem-messy
                                        STYLE   offset   ?offset=N&limit=RECORDS, {"data": [...], "next": null, "total": N}
                                                cursor   ?cursor=N, {"data": [...], "next": "N+1", "total": N}
                                                link     ?page=N, a Link header
                                                next_url ?page=N, {"data": [...], "next": "http://...", "total": N}
                                                array    one array of PAGES pages in one body
                                                ndjson   the same, a record a line
                                        WAIT    milliseconds before each answer
    /totals/KIND/PAGES                  what must come out: {"rows": N, "sums": [N, N, N], "bytes": N}; the last is in cents

A thread a connection is enough: the work is the kernel's copying, during which Python holds no lock. Rendering does hold it.
"""
import argparse
import functools
import json
import multiprocessing
import signal
import socket
import struct
import sys
import threading
import time
import zlib
from urllib.parse import parse_qs, urlsplit

import records

HEAD = b'{"data":['
GZIP = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"


class Refused(Exception):
    """A request that is not understood."""


class Pages:
    """The rendered pages of all kinds; each kind is rendered when it is first asked for."""

    def __init__(self, per_page, distinct, fresh):
        self.per_page, self.distinct, self.fresh = per_page, distinct, fresh
        self.rendered, self.deflated, self.lock = {}, {}, threading.Lock()

    def of(self, kind):
        with self.lock:
            if kind not in self.rendered:
                self.rendered[kind] = [records.render(kind, page, self.per_page) for page in range(self.distinct)]
            return self.rendered[kind]

    def block(self, kind, page):
        """The records of one page."""
        which = page % self.distinct
        if self.fresh:
            return self.fresh.apply(records.render, (kind, which, self.per_page))[0]
        return self.of(kind)[which][0]

    def totals(self, kind, count):
        pages, sums, size = self.of(kind), [0, 0, 0, 0], 0
        for page in range(count):
            block, _, totals = pages[page % self.distinct]
            sums, size = [a + b for a, b in zip(sums, totals)], size + len(block)
        return {"rows": sums[0], "sums": sums[1:], "bytes": size}

    def gzip(self, kind, page, tail):
        """One gzip member: the page compressed once, its end and its checksum by request."""
        key = kind, page % self.distinct
        block = self.of(kind)[key[1]][0]
        with self.lock:
            if key not in self.deflated:
                packer = zlib.compressobj(6, zlib.DEFLATED, -15)
                packed = packer.compress(HEAD + block) + packer.flush(zlib.Z_FULL_FLUSH)
                self.deflated[key] = packed, zlib.crc32(HEAD + block)
            packed, check = self.deflated[key]
        packer = zlib.compressobj(6, zlib.DEFLATED, -15)
        end = packer.compress(tail) + packer.flush()
        length = len(HEAD) + len(block) + len(tail)
        return [GZIP, packed, end + struct.pack("<II", zlib.crc32(tail, check), length & 0xFFFFFFFF)]


def answer(pages, target, host):
    """The headers and the parts of the body of one request."""
    url = urlsplit(target)
    query = {name: values[0] for name, values in parse_qs(url.query).items()}
    steps = url.path.strip("/").split("/")
    if steps[0] == "totals":
        return [], [json.dumps(pages.totals(steps[1], int(steps[2]))).encode()], 0
    kind, style, count = steps[0], steps[1], int(steps[2])
    if kind not in records.KINDS:
        raise Refused(f"no kind {kind}")
    wait, packed = int(steps[3]) if len(steps) > 3 else 0, steps[4:] == ["gzip"]
    if style in ("array", "ndjson"):
        rendered = pages.of(kind)
        which = 0 if style == "array" else 1
        blocks = [rendered[page % pages.distinct][which] for page in range(count)]
        if style == "ndjson":
            return [], blocks, wait
        parts = [b"["]
        for block in blocks:
            parts += [block, b","]
        return [], [*parts[:-1], b"]"], wait
    page, following, extra = place(pages, style, query), None, []
    if page + 1 < count:
        if style == "cursor":
            following = str(page + 1)
        elif style in ("link", "next_url"):
            following = f"http://{host}{url.path}?page={page + 1}"
    if style == "link" and following:
        extra, following = [f'Link: <{following}>; rel="next"'], None
    tail = f'],"next":{json.dumps(following)},"total":{count * pages.per_page}}}'.encode()
    if page >= count:
        return extra, [HEAD, tail], wait
    if packed:
        return [*extra, "Content-Encoding: gzip"], pages.gzip(kind, page, tail), wait
    return extra, [HEAD, pages.block(kind, page), tail], wait


def place(pages, style, query):
    """The number of the page that is asked for."""
    if style == "offset":
        offset, limit = int(query.get("offset", 0)), int(query.get("limit", pages.per_page))
        if limit != pages.per_page or offset % limit:
            raise Refused(f"pages are of {pages.per_page} records")
        return offset // limit
    if style in ("cursor", "link", "next_url"):
        return int(query.get("cursor" if style == "cursor" else "page", 0))
    raise Refused(f"no style {style}")


def converse(reply, peer):
    """Answers the requests of one connection; `reply` is given a target and a host, as `answer` is."""
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    pending = b""
    while True:
        while b"\r\n\r\n" not in pending:
            chunk = peer.recv(65536)
            if not chunk:
                return
            pending += chunk
        request, pending = pending.split(b"\r\n\r\n", 1)
        first, *lines = request.decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        method, target, version = first.split(" ")
        closing = headers.get("connection", "").lower() == "close" or version == "HTTP/1.0"
        status = "200 OK"
        try:
            extra, parts, wait = reply(target, headers.get("host", ""))
        except (Refused, ValueError, IndexError) as error:
            status, extra, parts, wait = "400 Bad Request", [], [json.dumps({"error": str(error)}).encode()], 0
        if wait:
            time.sleep(wait / 1000)
        kind = "application/x-ndjson" if "/ndjson/" in target else "application/json"
        lines = [f"HTTP/1.1 {status}", f"Content-Type: {kind}", f"Content-Length: {sum(map(len, parts))}", *extra]
        if closing:
            lines.append("Connection: close")
        peer.sendall("\r\n".join([*lines, "", ""]).encode(), 0 if method == "HEAD" else socket.MSG_MORE)
        if method != "HEAD":
            for part in parts[:-1]:
                peer.sendall(part, socket.MSG_MORE)
            peer.sendall(parts[-1])
        if closing:
            return


def serve(reply, peer):
    with peer:
        try:
            converse(reply, peer)
        except OSError:
            pass  # The reader went away.


def listen(reply, port=0):
    """Prints the address, then answers until the end of the process."""
    with socket.create_server(("127.0.0.1", port), backlog=64) as listener:
        print(f"http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
        while True:
            peer, _ = listener.accept()
            threading.Thread(target=serve, args=(reply, peer), daemon=True).start()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--records", type=int, default=5000, help="of a page")
    parser.add_argument("--distinct", type=int, default=4, help="pages that are rendered; neighbours must differ")
    parser.add_argument("--fresh", type=int, default=0, help="processes that render each page when it is asked for")
    args = parser.parse_args()
    # So that the processes end with this one.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    fresh = multiprocessing.Pool(args.fresh) if args.fresh else None
    pages = Pages(args.records, max(2, args.distinct), fresh)
    listen(functools.partial(answer, pages), args.port)


if __name__ == "__main__":
    main()
