#!/usr/bin/env python3
"""Whole reads by the binary over loopback: CPU per GB, speed, memory, waiting; rows and sums are checked.

    make bench      (or: python3 benches/read.py --bin target/release/restmark [--only plain] [--runs 1] [--scale 0.2])

Parts: plain, gzip, waiting, memory; `--only` may also name one line, e.g. `--only "taxi cursor all null"`. Least CPU and
least wall time of the runs, the greatest peak. CPU is the reader's alone, per GB of JSON after decompression.
"""
import argparse
import http.client
import json
import os
import shutil
import sys
import tempfile
import time
from dataclasses import dataclass
from urllib.parse import urlsplit

import harness
import records


@dataclass
class Case:
    """One line of a table."""
    kind: str
    style: str
    columns: str
    to: str
    pages: int
    wait: int = 0
    gzip: bool = False

    @property
    def name(self):
        return f"{self.kind} {self.style} {self.columns} {self.to}" + (" gzip" if self.gzip else "")


@dataclass
class Result:
    """The best of its runs; `right` tells what was checked."""
    case: Case
    rows: int
    gb: float
    cpu: float
    wall: float
    peak: float
    right: str


def cases(part, scale):
    """The lines of a part."""
    count = lambda pages: max(4, round(pages * scale))
    both = ("all", "3")
    if part == "plain":
        lines = [Case(kind, "cursor", columns, to, count(200))
                 for kind in records.KINDS for columns in both for to in ("null", "arrow")]
        lines += [Case(kind, style, columns, "null", count(200))
                  for kind in records.COLUMNS for style in ("offset", "link") for columns in both]
        return lines
    if part == "gzip":
        return [Case(kind, "cursor", columns, "null", count(200), gzip=gzip)
                for kind in records.COLUMNS for columns in both for gzip in (False, True)]
    if part == "waiting":
        return [Case("taxi", style, columns, "null", count(120), wait=50)
                for style in ("offset", "cursor", "link") for columns in both]
    return [Case("taxi", style, columns, "null", count(pages))
            for style, pages in (("cursor", 960), ("offset", 960), ("array", 96), ("ndjson", 240)) for columns in both]


def once(args, server, case, folder):
    """One run, and what was wrong with it or what was checked."""
    expected = server.totals(case.kind, case.pages)
    names = records.SUMMED[case.kind.partition("-")[0]]
    conf, out = os.path.join(folder, "t.conf"), os.path.join(folder, "out")
    with open(conf, "w", encoding="utf-8") as handle:
        handle.write(harness.config(server, case.kind, case.style, case.pages, case.wait, case.gzip))
    command = [args.bin, "read", conf, "t", "--log", "json", "-q"]
    command += ["--to", "null:"] if case.to == "null" else ["--to", out, "--format", "arrow"]
    if case.columns == "3":
        command += ["--select", ",".join(names)]
    ran = harness.run(command)
    rows = harness.counts(ran)["rows_read"]
    right = "rows" if rows == expected["rows"] else f"**{rows} rows, not {expected['rows']}**"
    if case.to == "arrow":
        if os.path.exists(harness.PYTHON):
            check = harness.run([harness.PYTHON, os.path.join(harness.HERE, "totals.py"), out, *names])
            found = json.loads(check.out) if not check.code else check.err.strip()[-200:]
            wanted = {"rows": expected["rows"], "sums": expected["sums"]}
            right = "rows, sums" if found == wanted else f"**{found}, not {wanted}**"
        shutil.rmtree(out)
    return ran, Result(case, rows, expected["bytes"] / 1e9, ran.cpu, ran.wall, ran.peak_mib, right)


def measure(args, server, case):
    """The best of several runs."""
    best = None
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(args.runs):
            _, result = once(args, server, case, folder)
            if best:
                result.cpu, result.wall = min(result.cpu, best.cpu), min(result.wall, best.wall)
                result.peak = max(result.peak, best.peak)
                result.right = max(result.right, best.right, key=lambda text: ("**" in text, text))
            best = result
    return best


def receive(server, case):
    """Wall time of the same walk by a client that only receives and knows every address: what no reader can beat."""
    url = urlsplit(server.base)
    peer, buffer = http.client.HTTPConnection(url.hostname, url.port), bytearray(1 << 20)
    begun = time.monotonic()
    for page in range(case.pages):
        peer.request("GET", f"/{case.kind}/{case.style}/{case.pages}/{case.wait}/plain?cursor={page}&page={page}")
        answer = peer.getresponse()
        while answer.readinto(buffer):
            pass
    return time.monotonic() - begun


def show(head, rows):
    print("\n| " + " | ".join(head) + " |\n|" + "---|" * len(head))
    for row in rows:
        print("| " + " | ".join(row) + " |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default="target/release/restmark")
    parser.add_argument("--only", default="", help="a part or the beginning of a line's name")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--scale", type=float, default=float(os.environ.get("RESTMARK_BENCH_SCALE") or 1))
    args = parser.parse_args()
    wrong = False
    with harness.Server() as server:
        for part in ("plain", "gzip", "waiting", "memory"):
            chosen = cases(part, args.scale)
            if args.only != part:
                chosen = [case for case in chosen if case.name.startswith(args.only)]
            if not chosen:
                continue
            results, rows, plain, bare = [], [], None, {}
            for case in chosen:
                r = measure(args, server, case)
                results.append(r)
                line = [case.name, f"{r.rows:,}", f"{r.gb * 1000:.0f}", f"{r.wall:.2f}"]
                if part == "waiting":
                    bound = case.pages * case.wait / 1000 / (4 if case.style == "offset" else 1)
                    if case.style != "offset" and case.style not in bare:
                        bare[case.style] = min(receive(server, case) for _ in range(args.runs))
                    floor = f"{r.wall / bare[case.style]:.3f}" if case.style in bare else ""
                    line += [f"{bound:.2f}", f"{r.wall / bound:.3f}", floor, f"{r.cpu / r.gb:.2f}"]
                else:
                    line += [f"{r.gb * 1000 / r.wall:.0f}", f"{r.cpu:.2f}", f"{r.cpu / r.gb:.2f}", f"{r.peak:.0f}"]
                if part == "gzip":
                    line.append(f"{(r.cpu - plain.cpu) / r.gb:.2f}" if case.gzip and plain else "")
                    plain = plain if case.gzip else r
                rows.append([*line, r.right])
            wrong |= any("**" in r.right for r in results)
            columns = ["MB/s", "CPU s", "CPU s per GB", "peak MiB"]
            if part == "gzip":
                columns.append("of it gunzip, CPU s per GB")
            if part == "waiting":
                columns = ["least wait s", "times that", "times receiving only", "CPU s per GB"]
            show([part, "rows", "MB of JSON", "wall s", *columns, "checked"], rows)
    sys.exit(wrong)


if __name__ == "__main__":
    main()
