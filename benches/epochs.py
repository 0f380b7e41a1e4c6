#!/usr/bin/env python3
"""What an epoch costs (ledger, staged files, publishing) on each kind of store, and how a stream with 1 s triggers keeps up.

    make bench-epochs      (or: python3 benches/epochs.py --bin target/release/restmark [--only cost] [--runs 1])

`cost`: one `restmark stream` cuts the same rows into one epoch, then into many; what is more is divided by the epochs that
are more. `triggers`: a stream into Parquet files on a local disk follows an API that gets so many rows each second, until
SIGTERM. Rows are checked against what lies in the windows, and by `restmark verify`. Least wall time of the runs.
"""
import argparse
import http.server
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.parse
from datetime import datetime, timezone

import harness
import stores

# Rows of a second in `cost`, and epochs.
ROWS, EPOCHS = 1000, 50
RATES = (1_000, 10_000, 100_000)
FOLLOWED = 15


class Events(http.server.BaseHTTPRequestHandler):
    """/events/ROWS/SPAN?since=S: ROWS records of each second from S to S + SPAN, but not of the second that is running."""
    protocol_version = "HTTP/1.1"
    rendered = {}

    def do_GET(self):
        url = urllib.parse.urlsplit(self.path)
        rows, span = map(int, url.path.split("/")[2:4])
        since = int(urllib.parse.parse_qs(url.query)["since"][0])
        if rows not in self.rendered:
            self.rendered[rows] = ",".join(
                f'{{"id":@@{n:06},"ts":@@,"name":"event {n} of its second","amount":{n}.25,"ok":true}}'
                for n in range(rows)).encode()
        seconds = range(since, min(since + span, int(time.time()) - 1) + 1)
        body = b"[" + b",".join(self.rendered[rows].replace(b"@@", str(at).encode()) for at in seconds) + b"]"
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def serve(pipe):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Events)
    pipe.send(server.server_port)
    server.serve_forever()


def config(port, rows, span, store):
    return f"""
base-url = "http://127.0.0.1:{port}"
{store.properties}
tables {{ t {{
  endpoint = "/events/{rows}/{span}"
  columns {{ id {{ type = int64 }}, ts {{ type = int64 }}, name {{ type = string }}, amount {{ type = float64 }}
             ok {{ type = boolean }} }}
  checkpoint {{ enabled = true, path = "{store.path("unused")}", mode = timestamp, timestamp-path = "/ts"
               timestamp-param = since, timestamp-format = epoch-s }}
}} }}
"""


def instant(at):
    return datetime.fromtimestamp(at, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def batches(ran):
    """The batches that a stream reported, by `--log json`."""
    if ran.code:
        raise SystemExit(f"restmark failed ({ran.code}):\n{ran.err}")
    events = [json.loads(line) for line in ran.err.splitlines() if line.startswith("{")]
    return [event for event in events if event.get("event") == "batch"]


def checked(found, rows, start=None):
    """Whether every window had the rows of its seconds."""
    count = sum(batch["counts"]["rows_emitted"] for batch in found)
    ends = [datetime.fromisoformat(batch["window"]["end"]).timestamp() for batch in found]
    begins = start or datetime.fromisoformat(found[0]["window"]["start"]).timestamp()
    wanted = round(ends[-1] - begins) * rows
    return count, "rows" if count == wanted else f"**{count} rows, not {wanted}**"


def cost(args, port, store, form, turn):
    """Wall and CPU ms that one more epoch takes, and what was checked."""
    ran = {}
    with tempfile.TemporaryDirectory() as folder:
        conf = os.path.join(folder, "t.conf")
        for epochs in (1, args.epochs):
            with open(conf, "w", encoding="utf-8") as handle:
                handle.write(config(port, ROWS, args.epochs if epochs == 1 else 1, store))
            # The end is two seconds behind now; what lies before it is cut into windows of one second, or not at all.
            begin = int(time.time()) - 2 - args.epochs - 60
            name = f"{form}-{turn}-{epochs}"
            # The last window is open to the present: so the API gives no more than the windows want.
            command = [args.bin, "stream", conf, "t", "--checkpoint-location", store.path(name + "-stream"),
                       "--to", store.path(name), "--format", form, "--starting", instant(begin), "--max-window",
                       "1s" if epochs > 1 else f"{args.epochs}s", "--log", "json", "-q"]
            done = harness.run(command)
            ran[epochs] = (done, batches(done))
            right = checked(ran[epochs][1], ROWS, begin)[1] if epochs > 1 else "rows"
    (one, few), (many, all_of_them) = ran[1], ran[args.epochs]
    more = len(all_of_them) - len(few)
    return (many.wall - one.wall) / more * 1000, (many.cpu - one.cpu) / more * 1000, len(all_of_them), right


def show_cost(args, port):
    head = ["store", "format", "epochs", "wall ms an epoch", "CPU ms an epoch", "epochs a second", "checked"]
    print("\n| " + " | ".join(head) + " |\n|" + "---|" * len(head))
    wrong = False
    for kind in (stores.Local, stores.S3, stores.Hdfs):
        with kind() as store:
            for form in args.formats.split(","):
                runs = [cost(args, port, store, form, turn) for turn in range(args.runs)]
                wall, cpu, epochs, right = min(runs)
                wrong |= "**" in right
                line = [store.name, form, str(epochs), f"{wall:.1f}", f"{cpu:.1f}", f"{1000 / wall:.0f}", right]
                print("| " + " | ".join(line) + " |", flush=True)
    return wrong


def follow(args, port, rate):
    with stores.Local() as store:
        conf, out = store.path("t.conf"), store.path("out")
        with open(conf, "w", encoding="utf-8") as handle:
            handle.write(config(port, rate, 60, store))
        command = [args.bin, "stream", conf, "t", "--checkpoint-location", store.path("stream"), "--to", out,
                   "--trigger", "1s", "--starting", instant(int(time.time()) - 3), "--log", "json", "-q"]
        with tempfile.TemporaryFile() as err:
            child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=err)
            time.sleep(args.seconds)
            child.send_signal(signal.SIGTERM)
            _, status, usage = os.wait4(child.pid, 0)
            child.returncode = os.waitstatus_to_exitcode(status)
            err.seek(0)
            done = harness.Ran(0 if child.returncode in (0, 130, 143) else child.returncode, args.seconds,
                               usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, "", err.read().decode())
        found = [batch for batch in batches(done) if batch["window"].get("start")]
        rows, right = checked(found, rate)
        verified = harness.run([args.bin, "verify", out, "-q"])
        if verified.code:
            right = f"**verify: {verified.code}**"
        lags = sorted(batch["lag_seconds"] for batch in found)
        return [f"{rate:,}", str(len(found)), f"{rows:,}", f"{rows / args.seconds:,.0f}", f"{done.cpu / rows * 1e6:.2f}",
                str(lags[len(lags) // 2]), str(lags[-1]), f"{done.peak_mib:.0f}", right]


def show_triggers(args, port):
    head = ["rows a second in the API", "batches", "rows", "rows a second", "CPU s per million rows",
            "lag s, middle", "lag s, most", "peak MiB", "checked"]
    print("\n| " + " | ".join(head) + " |\n|" + "---|" * len(head))
    wrong = False
    for rate in RATES:
        line = follow(args, port, rate)
        wrong |= "**" in line[-1]
        print("| " + " | ".join(line) + " |", flush=True)
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default="target/release/restmark")
    parser.add_argument("--only", default="", help="cost or triggers")
    parser.add_argument("--formats", default="parquet,ndjson")
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    parser.add_argument("--seconds", type=int, default=FOLLOWED)
    parser.add_argument("--runs", type=int, default=2)
    args = parser.parse_args()
    here, there = multiprocessing.Pipe()
    server = multiprocessing.Process(target=serve, args=(there,), daemon=True)
    server.start()
    port, wrong = here.recv(), False
    try:
        if args.only in ("", "cost"):
            wrong |= show_cost(args, port)
        if args.only in ("", "triggers"):
            wrong |= show_triggers(args, port)
    finally:
        server.terminate()
        server.join()
    sys.exit(wrong)


if __name__ == "__main__":
    main()
