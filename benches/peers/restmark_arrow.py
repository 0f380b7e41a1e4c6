"""restmark by cursor into Arrow files, summed with pyarrow: what somebody with its binary would do for this query."""
import os
import subprocess
import sys
import tempfile

from query import BASE, KIND, PAGES, PER_PAGE, SUMMED, WIDTH, say

import harness
import totals


class Server:
    base, per_page = BASE, PER_PAGE


with tempfile.TemporaryDirectory() as folder:
    conf, out = os.path.join(folder, "t.conf"), os.path.join(folder, "out")
    with open(conf, "w", encoding="utf-8") as handle:
        handle.write(harness.config(Server, KIND, "cursor", PAGES))
    select = ["--select", ",".join(SUMMED)] if WIDTH == "3" else []
    subprocess.run([sys.argv[5], "read", conf, "t", "-q", "--to", out, "--format", "arrow", *select], check=True)
    found = totals.of_folder(out, SUMMED)
say(found["rows"], *found["sums"][:2], found["sums"][2] / 100)
