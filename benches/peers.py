#!/usr/bin/env python3
"""The same pages and the same question (rows and three sums) to restmark and its peers: wall, CPU, peak memory.

    make bench-peers    (or, after make bench-setup: python3 benches/peers.py --bin target/release/restmark [--pages 100])

Each is a process from start to end, libraries loaded, measured alone; "without its start" takes a run with one page off, per GB. Best of
the runs, taken in turns. Rows and sums are checked against totals nobody read from JSON.
"""
import argparse
import json
import os

import harness
import records

PEERS = os.path.join(harness.HERE, "peers")


def contestants(args, base, kind, pages, width):
    """Name and command of everyone who is there."""
    given = [base, kind, str(pages), width]
    python = lambda file, *more: [harness.PYTHON, os.path.join(PEERS, file), *given, *more]
    found = {
        "restmark to Arrow, pyarrow": python("restmark_arrow.py", args.bin),
        "DuckDB 1.5.5 read_json": python("duckdb_pages.py", "json"),
        "DuckDB 1.5.5 from_json": python("duckdb_pages.py", "text"),
        "requests, json, pyarrow": python("plain_requests.py"),
    }
    if width == "all":  # These two know no choice of columns.
        found["dlt 1.31 rest_api (rows)"] = python("dlt_rest.py")
        if args.faucet and os.path.exists(args.faucet):
            found["faucet-source-rest 1.0.0 (values)"] = [args.faucet, base, kind, str(pages), *records.SUMMED[kind]]
    return found


def measure(command, expected):
    ran = harness.run(command)
    try:
        found = json.loads(ran.out.splitlines()[-1])
    except (ValueError, IndexError):
        return ran, f"**failed: {ran.err.strip()[-200:]}**"
    wanted = {"rows": expected["rows"], "sums": expected["sums"]}
    return ran, "rows, sums" if found == wanted else f"**{found}, not {wanted}**"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default="target/release/restmark")
    parser.add_argument("--faucet", help="the binary of benches/peers/faucet; left out if it is not there")
    parser.add_argument("--kind", default="taxi", choices=list(records.COLUMNS))
    parser.add_argument("--pages", type=int, default=round(100 * float(os.environ.get("RESTMARK_BENCH_SCALE") or 1)))
    parser.add_argument("--runs", type=int, default=2)
    args = parser.parse_args()
    args.bin = os.path.abspath(args.bin)
    if not os.path.exists(harness.PYTHON):
        raise SystemExit("the peers are not installed: make bench-setup")
    print("\n| columns | reader | wall s | CPU s | CPU s per GB | times restmark | without its start | peak MiB | checked |\n"
          "|---|---|---|---|---|---|---|---|---|")
    with harness.Server() as server:
        expected, one = server.totals(args.kind, args.pages), server.totals(args.kind, 1)
        gb = expected["bytes"] / 1e9
        for width in ("all", "3"):
            best, start, right = {}, {}, {}
            for _ in range(args.runs):
                for name, command in contestants(args, server.base, args.kind, args.pages, width).items():
                    ran, right[name] = measure(command, expected)
                    wall, cpu, peak = best.get(name, (9e9, 9e9, 0))
                    best[name] = min(wall, ran.wall), min(cpu, ran.cpu), max(peak, ran.peak_mib)
                for name, command in contestants(args, server.base, args.kind, 1, width).items():
                    start[name] = min(start.get(name, 9e9), measure(command, one)[0].cpu)
            rest = (expected["bytes"] - one["bytes"]) / 1e9
            ours = next(iter(best.values()))[1]
            for name, (wall, cpu, peak) in best.items():
                print(f"| {width} | {name} | {wall:.2f} | {cpu:.2f} | {cpu / gb:.1f} | {cpu / ours:.1f} |"
                      f" {(cpu - start[name]) / rest:.1f} | {peak:.0f} | {right[name]} |", flush=True)


if __name__ == "__main__":
    main()
