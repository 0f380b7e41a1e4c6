"""What the files in a folder hold of each second, as JSON: {second: [rows, different numbers, the greatest number]}.

    python seconds.py FOLDER parquet|ndjson
"""
import glob
import json
import re
import sys
from collections import defaultdict

ROW = re.compile(rb'^\{"at":(\d+),"n":(\d+),', re.MULTILINE)


def rows(folder, of):
    """The second and the number of each row."""
    for path in glob.glob(f"{folder}/*.{of}"):
        if of == "ndjson":
            with open(path, "rb") as handle:
                yield from ((int(at), int(n)) for at, n in ROW.findall(handle.read()))
        else:
            import pyarrow.parquet as pq  # Lines are read without it.
            table = pq.read_table(path, columns=["at", "n"], use_threads=False)
            yield from zip(table["at"].to_pylist(), table["n"].to_pylist())


numbers, counts = defaultdict(set), defaultdict(int)
for second, number in rows(*sys.argv[1:]):
    numbers[second].add(number)
    counts[second] += 1
print(json.dumps({second: [counts[second], len(seen), max(seen)] for second, seen in numbers.items()}))
