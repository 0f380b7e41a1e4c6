#!/usr/bin/env python3
"""What an epoch costs on each kind of store, and how many rows a second a stream with one-second triggers delivers.

    make bench-epochs      (or: python3 benches/epochs.py --bin target/release/restmark [--only cost] [--runs 1])

`cost`: one process streams so many windows of 1,000 rows, each an epoch; ledger and files stand on the same store. `live`:
a table that grows by so many rows a second, streamed to local files until SIGTERM. Least wall and CPU time of the runs in
`cost`, the run of the least CPU in `live`. CPU is the reader's alone.
"""
import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from dataclasses import dataclass
from datetime import datetime, timezone

import events
import harness
import records
import stores

ROWS = 1000
RATES = (1_000, 10_000, 100_000)


@dataclass
class Streamed:
    """A stream that has ended: its batches, each with the time it was told of, and its CPU."""
    batches: list
    cpu: float

    def rows(self):
        return sum(batch["counts"]["rows_emitted"] for _, batch in self.batches)


def config(base, path, rate, epochs):
    """Three tables of the same rows: `walk` without epochs, `second` a window at a time, `live` by the clock."""
    columns = ", ".join(f"{name} {{ type = {of} }}"
                        for name, of in {"at": "int64", "n": "int64", **records.COLUMNS["taxi"]}.items())
    kept = f"""checkpoint {{ enabled = true, path = "{path}/unused", mode = timestamp, timestamp-path = "/at",
             timestamp-param = since, timestamp-format = epoch-s }}"""
    table = lambda name, endpoint, paging, more="": f"""
  {name} {{ endpoint = "{endpoint}", data-path = "/data", pagination {{ {paging} }}, columns {{ {columns} }}
    {more} }}"""
    cursor = harness.PAGING["cursor"]
    return f"""
base-url = "{base}"
tables {{ {table("walk", f"/walk/{ROWS}/{epochs}", cursor)}
  {table("second", f"/second/{ROWS}", "style = none", kept)}
  {table("live", f"/live/{rate}", cursor, kept)}
}}
"""


def write_config(server, folder, rate=1, epochs=1):
    path = os.path.join(folder, "t.conf")
    with open(path, "w", encoding="utf-8") as handle:
        handle.write(config(server.base, folder, rate, epochs))
    return path


def stream(command, env=None, seconds=None):
    """Runs a stream to its end, or until it has been told to end after some seconds."""
    # Opened for writing only: a null device that can be read is taken for a closed output.
    with open(os.devnull, "wb") as null:
        child = subprocess.Popen([*command, "--log", "json"], env=env, stdout=null, stderr=subprocess.PIPE, text=True)
    told = threading.Timer(seconds or 600, child.send_signal, [signal.SIGTERM])
    told.start()
    try:
        lines = [(time.time(), line) for line in child.stderr]
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    finally:
        told.cancel()
        if child.returncode is None:
            child.kill()
    if child.returncode:
        raise SystemExit(f"restmark failed ({child.returncode}):\n" + "".join(line for _, line in lines[-5:]))
    told_of = [(at, json.loads(line)) for at, line in lines]
    return Streamed([(at, event) for at, event in told_of if event.get("event") == "batch"],
                    usage.ru_utime + usage.ru_stime)


def verify(args, to, env, rows):
    """What was checked of a directory, or what was wrong with it."""
    ran = harness.run([args.bin, "verify", to, "--log", "json"], env)
    said = [json.loads(line) for line in ran.err.splitlines() if '"verified"' in line]
    found = said[-1] if said else {}
    if ran.code or found.get("rows") != rows or found.get("differences") or found.get("unnamed"):
        return f"**{ran.out.strip()[-200:]} {ran.err.strip()[-200:]}, not {rows} rows**"
    return "rows, verify"


def read_alone(args, conf):
    """Wall and CPU ms a page of the same rows, as many as an epoch holds, without epochs."""
    ran = harness.run([args.bin, "read", conf, "walk", "--to", "null:", "--log", "json", "-q"])
    rows = harness.counts(ran)["rows_read"]
    right = "rows" if rows == args.epochs * ROWS else f"**{rows} rows, not {args.epochs * ROWS}**"
    return ran.wall * 1000 / args.epochs, ran.cpu * 1000 / args.epochs, right


def epochs_of(args, conf, place, to, env, wanted):
    """Wall and CPU ms an epoch, the median of its first and last twenty, and what was checked."""
    out, first = f"{place}/out", int(time.time()) - 2 - wanted
    command = [args.bin, "stream", conf, "second", "--checkpoint-location", f"{place}/state", "--max-window", "1s",
               "--starting", datetime.fromtimestamp(first, timezone.utc).isoformat().replace("+00:00", "Z")]
    command += ["--to", "-"] if to == "ledger" else ["--to", out, "--format", to]
    ran = stream(command, env)
    times = [at for at, _ in ran.batches]
    each = [1000 * (b - a) for a, b in zip(times, times[1:])]
    count, right = len(times), "rows"
    if count < wanted or ran.rows() != count * ROWS:
        right = f"**{ran.rows()} rows in {count} epochs**"
    elif to != "ledger":
        right = verify(args, out, env, count * ROWS)
    # The time before the first one is that of the process and of its connections.
    return statistics.mean(each), ran.cpu * 1000 / count, statistics.median(each[:20]), statistics.median(each[-20:]), right


def worse(found):
    """What was wrong with one of the runs, if anything was."""
    return max(found, key=lambda text: ("**" in text, text))


def cost(args, server):
    """The table of the costs; whether anything was wrong."""
    wrong = False
    head = ["store", "to", "ms an epoch", "CPU ms", "less the read, ms", "CPU, ms", "first 20, ms", "last 20, ms", "checked"]
    print("\n| " + " | ".join(head) + " |\n|" + "---|" * len(head))
    with tempfile.TemporaryDirectory() as folder:
        conf = write_config(server, folder, epochs=args.epochs)
        runs = [read_alone(args, conf) for _ in range(args.runs)]
        wall, cpu = min(run[0] for run in runs), min(run[1] for run in runs)
        right = worse(run[2] for run in runs)
        wrong |= "**" in right
        print(f"| none | null | {wall:.1f} | {cpu:.2f} | | | | | {right} |", flush=True)
        for name, (start, part) in stores.ALL.items():
            if args.store not in ("", name):
                continue
            if part and (why := stores.missing(part)):
                print(f"{name}: {why}: left out", file=sys.stderr)
                continue
            own = os.path.join(folder, name)
            os.mkdir(own)
            with start(own) as store:
                env = store.env(os.path.join(own, "client"))
                # There an epoch takes a second or two.
                count = max(20, args.epochs // 5) if name == "hdfs" else args.epochs
                for to in ("ledger", "ndjson", "parquet"):
                    runs = [epochs_of(args, conf, store.place(f"{to}-{i}"), to, env, count) for i in range(args.runs)]
                    best = [min(run[place] for run in runs) for place in range(4)]
                    right = worse(run[4] for run in runs)
                    wrong |= "**" in right
                    line = [store.name, to, f"{best[0]:.1f}", f"{best[1]:.2f}", f"{best[0] - wall:.1f}",
                            f"{best[1] - cpu:.2f}", *(f"{ms:.1f}" if count >= 40 else "" for ms in best[2:]), right]
                    print("| " + " | ".join(line) + " |", flush=True)
    return wrong


def seconds_of(stamp):
    return int(datetime.fromisoformat(stamp.replace("Z", "+00:00")).timestamp())


def whole(out, to, batches, rate):
    """Whether the files hold each row of the windows once, and no other."""
    if not os.path.exists(harness.PYTHON):
        return "rows"
    ran = harness.run([harness.PYTHON, os.path.join(harness.HERE, "seconds.py"), out, to])
    if ran.code:
        return f"**{ran.err.strip()[-200:]}**"
    windows = [batch["window"] for _, batch in batches]
    read = range(seconds_of(windows[0]["start"]) + 1, seconds_of(windows[-1]["end"]) + 1)
    wanted = {str(second): [rate, rate, rate - 1] for second in read}
    if json.loads(ran.out) != wanted:
        return f"**not each row of {len(wanted)} seconds once**"
    return "each row once, verify"


def live_run(args, server, rate, to):
    """A line of figures and what was checked; the CPU comes first, to choose by."""
    with tempfile.TemporaryDirectory() as folder:
        conf, out = write_config(server, folder, rate=rate), os.path.join(folder, "out")
        ran = stream([args.bin, "stream", conf, "live", "--checkpoint-location", os.path.join(folder, "state"),
                      "--to", out, "--format", to, "--trigger", "1s", "--starting", "now"], seconds=args.seconds)
        rows, took = ran.rows(), ran.batches[-1][0] - ran.batches[0][0]
        asked = sum(batch["counts"]["rows_read"] for _, batch in ran.batches)
        behind = [at - seconds_of(batch["window"]["end"]) for at, batch in ran.batches[1:]]
        right = verify(args, out, None, rows)
        if "**" not in right:
            right = whole(out, to, ran.batches, rate)
    line = [f"{rate:,}", to, str(len(ran.batches)), f"{rows:,}", f"{rows / took:,.0f}", f"{asked / rows:.2f}",
            f"{ran.cpu / rows * 1e6:.2f}", f"{behind[-1]:.2f}", f"{max(behind):.2f}"]
    return ran.cpu / rows, line, right


def live(args, server):
    """The table of the live streams; whether anything was wrong."""
    wrong = False
    head = ["rows/s of the API", "to", "batches", "rows", "rows/s", "read per row", "CPU s per million rows",
            "s behind at the end", "at most", "checked"]
    print("\n| " + " | ".join(head) + " |\n|" + "---|" * len(head))
    for rate in args.rates:
        # Rendered before anybody is measured.
        urllib.request.urlopen(f"{server.base}/live/{rate}?since={int(time.time()) - 1}").read()
        for to in ("ndjson", "parquet"):
            runs = [live_run(args, server, rate, to) for _ in range(args.runs)]
            _, line, _ = min(runs)
            right = worse(run[2] for run in runs)
            wrong |= "**" in right
            print("| " + " | ".join([*line, right]) + " |", flush=True)
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default="target/release/restmark")
    parser.add_argument("--only", default="", help="cost or live")
    parser.add_argument("--store", default="", help=f"of the costs: {', '.join(stores.ALL)}")
    parser.add_argument("--runs", type=int, default=2)
    scale = float(os.environ.get("RESTMARK_BENCH_SCALE") or 1)
    parser.add_argument("--epochs", type=int, default=max(20, round(100 * scale)))
    parser.add_argument("--seconds", type=float, default=max(6, 20 * scale))
    parser.add_argument("--rates", type=int, nargs="+", default=RATES)
    args = parser.parse_args()
    # So that servers and streams end with this process.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    wrong = False
    with harness.Child(sys.executable, events.__file__) as server:
        if args.only in ("", "cost"):
            wrong |= cost(args, server)
        if args.only in ("", "live"):
            wrong |= live(args, server)
    sys.exit(wrong)


if __name__ == "__main__":
    main()
