"""A STAND-IN for Google Cloud Storage, not Google's server: the few calls of its XML API that tests need, in memory.

    gcs.py          prints http://127.0.0.1:PORT and serves until it is killed

It exists because no emulator at hand enforces a precondition on the XML API's PUT, which is what clients send. What it
answers follows Google's description of the XML API; no request is authenticated. Known are GET, HEAD, PUT and DELETE of
an object, its copy and its upload in parts, and the listing of a bucket (list-type=2); everything else is a 501, so that
nothing passes by luck.
x-goog-if-generation-match holds for PUT and DELETE, decided and carried out under one lock. A bucket is there once it
is named, unless its name begins with `no-such`.
"""

import email.utils
import hashlib
import http.server
import itertools
import re
import threading
import time
import urllib.parse
from datetime import datetime, timezone
from typing import NamedTuple
from xml.etree import ElementTree
from xml.sax.saxutils import escape

PAGE = 1000
CONDITION = "x-goog-if-generation-match"
# What would change the outcome if it were passed over.
UNKNOWN = {"if-match", "if-none-match", "x-goog-if-metageneration-match"}
# All parts but the last are at least this large.
PART = 5 << 20


def etag(data):
    return f'"{hashlib.md5(data).hexdigest()}"'


class Stored(NamedTuple):
    data: bytes
    generation: int
    at: float
    kind: str

    @property
    def etag(self):
        return etag(self.data)


class Refusal(Exception):
    def __init__(self, status, code, message):
        super().__init__(message)
        self.status, self.code = status, code


lock = threading.Lock()
objects: dict[tuple[str, str], Stored] = {}
# The parts of uploads that are not complete: by bucket, key and upload.
uploads: dict[tuple[str, str, str], dict[int, bytes]] = {}
# As at Google: larger with every write, also after a deletion.
generations = itertools.count(time.time_ns() // 1000)


def change(bucket, key, condition, new):
    """Puts `new(generation)` in place of what is there, if the condition holds; a `new` of None deletes."""
    with lock:
        old = objects.get((bucket, key))
        if condition is not None and condition != (old.generation if old else 0):
            raise Refusal(412, "PreconditionFailed", "At least one of the pre-conditions you specified did not hold.")
        if new is None:
            if old is None:
                raise Refusal(404, "NoSuchKey", "The specified key does not exist.")
            return objects.pop((bucket, key))
        objects[bucket, key] = new(next(generations))
        return objects[bucket, key]


def listing(bucket, query):
    """One page of a bucket's keys, in their order; a delimiter folds what lies deeper into prefixes."""
    prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
    after = query.get("continuation-token") or query.get("start-after", "")
    limit = min(int(query.get("max-keys", PAGE)), PAGE)
    with lock:
        here = ((key, stored) for (of, key), stored in objects.items() if of == bucket)
        found = sorted((key, stored) for key, stored in here if key.startswith(prefix))
    entries = {}
    for key, stored in found:
        head, cut, _ = key[len(prefix):].partition(delimiter) if delimiter else (key, "", "")
        name, entry = (prefix + head + cut, None) if cut else (key, stored)
        if name > after:
            entries.setdefault(name, entry)
    names = list(entries)[:limit]
    more = len(entries) > len(names)
    parts = [f"<IsTruncated>{str(more).lower()}</IsTruncated>"]
    if more and names:
        parts.append(f"<NextContinuationToken>{escape(names[-1])}</NextContinuationToken>")
    for name in names:
        stored = entries[name]
        if stored is None:
            parts.append(f"<CommonPrefixes><Prefix>{escape(name)}</Prefix></CommonPrefixes>")
            continue
        at = datetime.fromtimestamp(stored.at, timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        parts.append(
            f"<Contents><Key>{escape(name)}</Key><Generation>{stored.generation}</Generation>"
            f"<LastModified>{at}</LastModified><ETag>{escape(stored.etag)}</ETag>"
            f"<Size>{len(stored.data)}</Size></Contents>"
        )
    inner = "".join(parts)
    return f"<ListBucketResult><Name>{escape(bucket)}</Name><Prefix>{escape(prefix)}</Prefix>{inner}</ListBucketResult>"


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Head and body leave as one packet; otherwise every answer waits for a delayed acknowledgement.
    wbufsize = -1

    def log_message(self, *_):
        pass

    def handle_call(self):
        try:
            # Read first, so that a refusal leaves the connection usable.
            body = self.body()
            self.call(body)
        except Refusal as refusal:
            text = f"<Error><Code>{refusal.code}</Code><Message>{refusal}</Message></Error>"
            self.answer(refusal.status, xml(text), {"Content-Type": "application/xml"})

    do_GET = do_HEAD = do_PUT = do_DELETE = do_POST = handle_call

    def body(self):
        if "transfer-encoding" in self.headers:
            self.close_connection = True
            raise Refusal(501, "NotImplemented", "a body without a length is beyond this stand-in")
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def call(self, body):
        path, _, query = self.path.partition("?")
        query = dict(urllib.parse.parse_qsl(query, keep_blank_values=True))
        bucket, _, key = path.lstrip("/").partition("/")
        bucket, key = urllib.parse.unquote(bucket), urllib.parse.unquote(key)
        beyond = UNKNOWN.intersection(name.lower() for name in self.headers)
        if beyond or not bucket:
            raise Refusal(501, "NotImplemented", f"beyond this stand-in: {', '.join(sorted(beyond)) or 'no bucket'}")
        if bucket.startswith("no-such"):
            raise Refusal(404, "NoSuchBucket", "The specified bucket does not exist.")
        if not key and self.command == "GET" and query.get("list-type") == "2":
            return self.answer(200, xml(listing(bucket, query)), {"Content-Type": "application/xml"})
        if key and query.keys() & {"uploads", "uploadId"} and self.command in {"POST", "PUT", "DELETE"}:
            return self.upload(bucket, key, query, body)
        if not key or query.keys() - {"generation"} or self.command == "POST":
            raise Refusal(501, "NotImplemented", f"beyond this stand-in: {self.command} {self.path}")
        condition = self.headers.get(CONDITION)
        if condition is not None:
            if not condition.isdecimal():
                raise Refusal(400, "InvalidArgument", "Invalid argument.")
            condition = int(condition)
        if self.command == "PUT":
            if "x-goog-copy-source" in self.headers:
                body = self.source()
            kind = self.headers.get("Content-Type", "application/octet-stream")
            stored = change(bucket, key, condition, lambda generation: Stored(body, generation, time.time(), kind))
            return self.answer(200, b"", described(stored))
        if self.command == "DELETE":
            change(bucket, key, condition, None)
            return self.answer(204, b"", {})
        if condition is not None:
            raise Refusal(501, "NotImplemented", "beyond this stand-in: a condition on a read")
        return self.fetch(bucket, key, query.get("generation"))

    def source(self):
        """What a copy is of; it has no body of its own."""
        bucket, _, key = urllib.parse.unquote(self.headers["x-goog-copy-source"]).lstrip("/").partition("/")
        with lock:
            stored = objects.get((bucket, key))
        if stored is None:
            raise Refusal(404, "NoSuchKey", "The specified key does not exist.")
        return stored.data

    def upload(self, bucket, key, query, body):
        """Begins an upload in parts, takes a part, puts the parts together, or drops them."""
        if self.command == "POST" and "uploads" in query:
            upload = str(next(generations))
            with lock:
                uploads[bucket, key, upload] = {}
            inner = f"<Bucket>{escape(bucket)}</Bucket><Key>{escape(key)}</Key><UploadId>{upload}</UploadId>"
            text = f"<InitiateMultipartUploadResult>{inner}</InitiateMultipartUploadResult>"
            return self.answer(200, xml(text), {"Content-Type": "application/xml"})
        with lock:
            parts = uploads.get((bucket, key, query.get("uploadId")))
        if parts is None:
            raise Refusal(404, "NoSuchUpload", "The specified multipart upload does not exist.")
        if self.command == "PUT":
            with lock:
                parts[int(query["partNumber"])] = body
            return self.answer(200, b"", {"ETag": etag(body)})
        if self.command == "DELETE":
            with lock:
                uploads.pop((bucket, key, query["uploadId"]), None)
            return self.answer(204, b"", {})
        root = ElementTree.fromstring(body)
        with lock:
            whole = [(parts.get(int(part.findtext("PartNumber"))), part.findtext("ETag")) for part in root.iter("Part")]
        if not whole or any(part is None or etag(part) != tag for part, tag in whole):
            raise Refusal(400, "InvalidPart", "One or more of the specified parts could not be found.")
        if any(len(part) < PART for part, _ in whole[:-1]):
            raise Refusal(400, "EntityTooSmall", "Your proposed upload is smaller than the minimum object size.")
        data = b"".join(part for part, _ in whole)
        kind = "application/octet-stream"
        stored = change(bucket, key, None, lambda generation: Stored(data, generation, time.time(), kind))
        with lock:
            uploads.pop((bucket, key, query["uploadId"]), None)
        inner = f"<Bucket>{escape(bucket)}</Bucket><Key>{escape(key)}</Key><ETag>{escape(stored.etag)}</ETag>"
        text = f"<CompleteMultipartUploadResult>{inner}</CompleteMultipartUploadResult>"
        return self.answer(200, xml(text), {"Content-Type": "application/xml", **described(stored)})

    def fetch(self, bucket, key, generation):
        with lock:
            stored = objects.get((bucket, key))
        # Only the newest generation is kept.
        if stored is None or generation not in (None, str(stored.generation)):
            raise Refusal(404, "NoSuchKey", "The specified key does not exist.")
        headers = {"Content-Type": stored.kind, **described(stored)}
        wanted = self.headers.get("Range")
        if wanted is None:
            return self.answer(200, stored.data, headers)
        size = len(stored.data)
        span = re.fullmatch(r"bytes=(\d*)-(\d*)", wanted)
        if not span or span[0] == "bytes=-":
            raise Refusal(501, "NotImplemented", f"beyond this stand-in: Range: {wanted}")
        first = int(span[1]) if span[1] else max(size - int(span[2]), 0)
        last = min(int(span[2]), size - 1) if span[1] and span[2] else size - 1
        if first > last:
            raise Refusal(416, "InvalidRange", "The requested range cannot be satisfied.")
        headers["Content-Range"] = f"bytes {first}-{last}/{size}"
        return self.answer(206, stored.data[first : last + 1], headers)

    def answer(self, status, body, headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if status != 204:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


def described(stored):
    return {
        "ETag": stored.etag,
        "x-goog-generation": str(stored.generation),
        "Last-Modified": email.utils.formatdate(stored.at, usegmt=True),
    }


def xml(text):
    return f"<?xml version='1.0' encoding='UTF-8'?>{text}".encode()


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    # The default of 5 turns a race of many clients into refused connections.
    request_queue_size = 128


if __name__ == "__main__":
    server = Server(("127.0.0.1", 0), Handler)
    print(f"http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()
