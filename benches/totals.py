"""Rows and sums of the Arrow files in a folder, as JSON: count, two integers, and cents.

    python totals.py FOLDER ID SMALL AMOUNT
"""
import glob
import json
import sys

import pyarrow as pa
import pyarrow.compute as pc


def totals(batches, names):
    """Exact: integers are summed as decimals, amounts as whole cents."""
    rows, sums = 0, [0, 0, 0]
    for batch in batches:
        rows += batch.num_rows
        for place, name in enumerate(names):
            column = batch.column(batch.schema.get_field_index(name))
            if place == 2:
                column = pc.cast(pc.round(pc.multiply(column, 100.0)), pa.int64())
            else:
                column = pc.cast(column, pa.decimal128(38, 0))
            sums[place] += int(pc.sum(column).as_py() or 0)
    return {"rows": rows, "sums": sums}


def of_folder(folder, names):
    """Of all files, one batch at a time."""
    def batches():
        for path in sorted(glob.glob(f"{folder}/**/*.arrow", recursive=True)):
            with pa.memory_map(path) as source:
                reader = pa.ipc.open_file(source)
                for at in range(reader.num_record_batches):
                    yield reader.get_batch(at)
    return totals(batches(), names)


if __name__ == "__main__":
    print(json.dumps(of_folder(sys.argv[1], sys.argv[2:5])))
