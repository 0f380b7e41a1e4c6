"""What the benchmarks share: the server of pages, a configuration for each style, and one measured run."""
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from dataclasses import dataclass

import records

HERE = os.path.dirname(os.path.abspath(__file__))
CACHE = os.environ.get("RESTMARK_TEST_CACHE") or os.path.join(
    os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "restmark-test")
# The interpreter of `make bench-setup`; it has pyarrow and the peers.
PYTHON = os.path.join(CACHE, "bench", "bin", "python")
PAGING = {
    "offset": 'style = offset, total-path = "/total", max-page-size = 5000',
    "cursor": 'style = cursor, cursor-path = "/next"',
    "link": "style = link_header",
    "next_url": 'style = next_url, next-url-path = "/next"',
    "array": "style = none",
    "ndjson": "style = none",
}


@dataclass
class Ran:
    """A finished child: its own CPU and peak memory as `wait4` says. The peak is never less than this process's."""
    code: int
    wall: float
    cpu: float
    peak_mib: float
    out: str
    err: str


def run(command, env=None):
    """Runs a command to its end and measures it alone."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        begun = time.monotonic()
        child = subprocess.Popen(command, stdout=out, stderr=err, env=env)
        _, status, usage = os.wait4(child.pid, 0)
        wall = time.monotonic() - begun
        child.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0), err.seek(0)
        return Ran(child.returncode, wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024,
                   out.read().decode(errors="replace"), err.read().decode(errors="replace"))


class Child:
    """A server in a process of its own, whose CPU nobody counts; it prints its address first."""

    def __init__(self, *command):
        self.child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.base = self.child.stdout.readline().strip()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.child.terminate()
        self.child.wait()


class Server(Child):
    """`pages.py`."""

    def __init__(self, per_page=5000, *options):
        super().__init__(sys.executable, os.path.join(HERE, "pages.py"), "--records", str(per_page), *options)
        self.per_page = per_page

    def totals(self, kind, pages):
        """What a read must find. Also renders the kind, so that no measured run waits for that."""
        with urllib.request.urlopen(f"{self.base}/totals/{kind}/{pages}") as answer:
            return json.load(answer)


def config(server, kind, style, pages, wait=0, gzip=False, more=""):
    """A restmark configuration with one table, `t`, of all 20 columns and what `more` says."""
    columns = ", ".join(f"{name} {{ type = {of} }}" for name, of in records.COLUMNS[kind.partition("-")[0]].items())
    data = "" if style in ("array", "ndjson") else 'data-path = "/data"'
    return f"""
base-url = "{server.base}"
http {{ response-format = {"ndjson" if style == "ndjson" else "json"} }}
tables {{ t {{
  endpoint = "/{kind}/{style}/{pages}/{wait}/{"gzip" if gzip else "plain"}"
  {data}
  pagination {{ {PAGING[style].replace("5000", str(server.per_page))} }}
  columns {{ {columns} }}
  {more}
}} }}
"""


def counts(ran):
    """The counts of restmark's loss report, from `--log json`."""
    lines = [line for line in ran.err.splitlines() if '"counts"' in line]
    if ran.code or not lines:
        raise SystemExit(f"restmark failed ({ran.code}):\n{ran.err}")
    return json.loads(lines[-1])["counts"]
