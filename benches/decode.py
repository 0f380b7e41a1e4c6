#!/usr/bin/env python3
"""Decoding alone, from memory: restmark beside the libraries it could use. CPU seconds per GB, the best of several rounds.

    make bench-decode     (or: python3 benches/decode.py [--rounds 20] [--only taxi])     builds benches/decode

Pages of 5,000 records of 20 fields. Everybody decodes the same pages in turn, in one process and on one thread, into Arrow
arrays whose rows and sums are checked.
"""
import argparse
import json
import os
import subprocess
import tempfile

import harness
import records

PAGES = 6


class Nowhere:
    """Stands for the server in a configuration that is only read for its columns."""
    base, per_page = "http://127.0.0.1:9", 5000


def write(folder, kind):
    """Pages, lines, configuration and totals, as the crate wants them."""
    totals = [0, 0, 0, 0]
    for page in range(PAGES):
        block, lines, found = records.render(kind, page, Nowhere.per_page)
        totals = [a + b for a, b in zip(totals, found)]
        for name, data in ((f"{page}.json", b'{"data":[' + block + b'],"next":"17","total":1}'), (f"{page}.ndjson", lines)):
            with open(os.path.join(folder, name), "wb") as handle:
                handle.write(data)
    expected = {"columns": records.SUMMED[kind.partition("-")[0]], "totals": totals}
    for name, text in (("t.conf", harness.config(Nowhere, kind, "cursor", PAGES)), ("expected.json", json.dumps(expected))):
        with open(os.path.join(folder, name), "w", encoding="utf-8") as handle:
            handle.write(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--only", default="", help="the beginning of a kind")
    args = parser.parse_args()
    manifest = os.path.join(harness.HERE, "decode", "Cargo.toml")
    # Not `--locked`: what restmark depends on may have changed since.
    subprocess.run(["cargo", "build", "--release", "--quiet", "--manifest-path", manifest], check=True)
    target = os.environ.get("CARGO_TARGET_DIR") or os.path.join(harness.HERE, "decode", "target")
    print("\n| records | decoder | all columns, CPU s per GB | times restmark | three columns | times restmark |\n|---|---|---|---|---|---|",
          flush=True)
    for kind in records.KINDS:
        if kind.startswith(args.only):
            with tempfile.TemporaryDirectory() as folder:
                write(folder, kind)
                binary = os.path.join(target, "release", "restmark-decode-bench")
                subprocess.run([binary, folder, kind, str(args.rounds)], check=True)


if __name__ == "__main__":
    main()
