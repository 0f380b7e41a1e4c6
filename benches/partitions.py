#!/usr/bin/env python3
"""What partitions bring: the same pages read by 1, 2, 4 and 8 of them, against a server that waits and one that computes.

    make bench-partitions      (or: python3 benches/partitions.py --bin target/release/restmark [--only waits] [--runs 1])

`waits` answers each page after 50 ms; `computes` renders each page when it is asked for, in as many processes as there are
cores. `offset` is cut into windows of offsets, `cursor` into values of a parameter. Least wall time of the runs; rows are
checked.
"""
import argparse
import os
import sys
import tempfile

import harness

PARTITIONS = (1, 2, 4, 8)
# A prime, so that no two windows begin with the same page: restmark would rightly refuse them.
DISTINCT = "11"


def config(server, style, pages, wait, parts):
    """The table `t` of so many pages in so many parts."""
    each = pages // parts
    if style == "offset":
        return harness.config(server, "taxi", style, pages, wait,
                              more=f"partition {{ type = offset, size = {each * server.per_page}, count = {parts} }}")
    # The server does not look at the value: each is a walk over its part of the pages.
    values = ", ".join(map(str, range(parts)))
    return harness.config(server, "taxi", style, each, wait,
                          more=f"partition {{ type = enum, param = part, values = [{values}] }}")


def measure(args, server, style, pages, wait, parts):
    """The least wall and CPU time, and what was checked."""
    walls, cpus, right = [], [], "rows"
    with tempfile.TemporaryDirectory() as folder:
        conf = os.path.join(folder, "t.conf")
        with open(conf, "w", encoding="utf-8") as handle:
            handle.write(config(server, style, pages, wait, parts))
        for _ in range(args.runs):
            ran = harness.run([args.bin, "read", conf, "t", "--to", "null:", "--log", "json", "-q",
                               "--parallel", str(parts)])
            rows = harness.counts(ran)["rows_read"]
            walls.append(ran.wall), cpus.append(ran.cpu)
            if rows != pages * server.per_page:
                right = f"**{rows} rows, not {pages * server.per_page}**"
    return min(walls), min(cpus), right


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default="target/release/restmark")
    parser.add_argument("--only", default="", help="waits or computes")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--scale", type=float, default=float(os.environ.get("RESTMARK_BENCH_SCALE") or 1))
    args = parser.parse_args()
    cores = os.cpu_count() or 1
    wrong = False
    for kind, per_page, most, wait, options in (
        ("waits", 5000, 80, 50, ["--distinct", DISTINCT]),
        ("computes", 500, 80, 0, ["--distinct", DISTINCT, "--fresh", str(cores)]),
    ):
        if args.only not in ("", kind):
            continue
        pages = max(8, round(most * args.scale) // 8 * 8)
        head = [kind, "partitions", "pages", "rows", "wall s", "times one partition", "CPU s", "checked"]
        print("\n| " + " | ".join(head) + " |\n|" + "---|" * len(head))
        with harness.Server(per_page, *options) as server:
            server.totals("taxi", pages)
            for style in ("cursor", "offset"):
                first = None
                for parts in PARTITIONS:
                    wall, cpu, right = measure(args, server, style, pages, wait, parts)
                    first = first or wall
                    wrong |= "**" in right
                    line = [f"{style}", str(parts), str(pages), f"{pages * per_page:,}", f"{wall:.2f}",
                            f"{first / wall:.2f}", f"{cpu:.2f}", right]
                    print("| " + " | ".join(line) + " |", flush=True)
    sys.exit(wrong)


if __name__ == "__main__":
    main()
