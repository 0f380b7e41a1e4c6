#!/usr/bin/env python3
"""Reads on a Spark cluster of loopback: rows a second and CPU per GB, beside a plain Python data source with requests.

    make bench-spark      (or: python benches/spark.py [--runs 3] [--scale 0.2], by a Python with the wheel and pyspark)

Two workers of one core each read taxi pages in two windows of offsets, all 20 columns; the query counts and sums, and its
result is checked. CPU is that of the executors and their Python workers, wall time that of the query, the session already warm. The
least of the runs.
"""
import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

import harness
import records

sys.path.insert(0, os.path.join(harness.HERE, "..", "python", "tests", "spark"))
sys.path.insert(0, os.path.join(harness.HERE, "peers"))

import spark_requests
from cluster import FAST_START, Cluster
from pyspark import cloudpickle
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

import restmark.spark

PARTS = 2
TICKS = os.sysconf("SC_CLK_TCK")
# The executors cannot import the peer.
cloudpickle.register_pickle_by_value(spark_requests)


def cpu(cluster):
    """Seconds that the children of the workers have used, and theirs, also those that have ended."""
    stats = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            words = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        stats[int(path.parent.name)] = int(words[1]), sum(map(int, words[11:15])) / TICKS
    wanted, found = {daemon.process.pid for daemon in cluster.daemons[1:]}, 0.0
    while wanted:
        children = {pid for pid, (parent, _) in stats.items() if parent in wanted}
        found += sum(stats[pid][1] for pid in children)
        wanted = children
    return found


def session(cluster):
    os.environ |= {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable,
                   "SPARK_LOCAL_IP": "127.0.0.1"}
    builder = SparkSession.builder.master(cluster.url).appName("bench").config("spark.ui.enabled", "false")
    builder = builder.config("spark.executor.memory", "600m").config("spark.driver.extraJavaOptions", FAST_START)
    return builder.config("spark.sql.session.timeZone", "UTC").getOrCreate()


def readers(spark, server, pages, folder):
    """The lines of the table: a name, and what makes a DataFrame."""
    rows = pages * server.per_page
    conf = os.path.join(folder, "t.conf")
    with open(conf, "w", encoding="utf-8") as handle:
        more = f"partition {{ type = offset, size = {rows // PARTS}, count = {PARTS} }}"
        handle.write(harness.config(server, "taxi", "offset", pages, more=more))
    spark.dataSource.register(restmark.spark.RestmarkSource)
    spark.dataSource.register(spark_requests.RequestsSource)

    def ours(**more):
        return spark.read.format("restmark").options(config=conf, table="t", **more).load()

    schema = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in ours().schema)
    theirs = {"url": f"{server.base}/taxi/offset/{pages}", "schema": schema, "rows": str(rows), "parts": str(PARTS)}

    def plain(kind):
        return lambda: spark.read.format("requests").options(**theirs, **{"as": kind}).load()

    return {
        "restmark": ours,
        "restmark, 3 columns": lambda: ours(select=",".join(records.SUMMED["taxi"])),
        "requests, json, Arrow": plain("arrow"),
        "requests, json, rows": plain("rows"),
    }


def once(cluster, load, wanted):
    """Wall and CPU time of one query, and whether its sums are right."""
    names = records.SUMMED["taxi"]
    before, begun = cpu(cluster), time.monotonic()
    row = load().agg(f.count("*"), *map(f.sum, names)).first()
    wall, used = time.monotonic() - begun, cpu(cluster) - before
    found = [row[0], row[1], row[2], round(row[3] * 100)]
    return wall, used, "rows, sums" if found == wanted else f"**{found}, not {wanted}**"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--scale", type=float, default=float(os.environ.get("RESTMARK_BENCH_SCALE") or 1))
    args = parser.parse_args()
    pages = max(8, round(200 * args.scale) // 8 * 8)
    wrong = False
    cluster = Cluster({})
    # A prime, so that no two windows begin with the same page: restmark would rightly refuse them.
    with tempfile.TemporaryDirectory() as folder, harness.Server(5000, "--distinct", "11") as server:
        totals = server.totals("taxi", pages)
        wanted, gb = [totals["rows"], *totals["sums"]], totals["bytes"] / 1e9
        spark = session(cluster)
        lines, best = readers(spark, server, pages, folder), {}
        for _ in range(args.runs + 1):
            # The first round warms the JVMs and the Python workers.
            for name, load in lines.items():
                wall, used, right = once(cluster, load, wanted)
                wrong |= "**" in right
                before = best.get(name, (float("inf"), float("inf"), ""))
                best[name] = min(wall, before[0]), min(used, before[1]), max(right, before[2], key=lambda t: "**" in t)
        spark.stop()
    cluster.stop()
    head = ["reader", "rows", "MB of JSON", "wall s", "rows/s", "CPU s", "CPU s per GB", "times restmark", "checked"]
    print("\n| " + " | ".join(head) + " |\n|" + "---|" * len(head))
    for name, (wall, used, right) in best.items():
        print("| " + " | ".join([
            name, f"{wanted[0]:,}", f"{gb * 1000:.0f}", f"{wall:.2f}", f"{wanted[0] / wall:,.0f}", f"{used:.2f}",
            f"{used / gb:.1f}", f"{used / best['restmark'][1]:.1f}", right]) + " |")
    sys.exit(wrong)


if __name__ == "__main__":
    main()
