"""What other programs see in directories that restmark has written.

readers.py READER [FORMAT DIR]...: one line of JSON for each directory, [rows, sum of id, names that are not NULL].
"""

import glob
import json
import os
import sys
from pathlib import Path


def of_table(table):
    """The figures of a table of pyarrow."""
    import pyarrow.compute as compute

    names = table["name"]
    return [table.num_rows, compute.sum(table["id"]).as_py(), len(names) - names.null_count]


def by_arrow(form, path):
    """pyarrow; of a Delta table deltalake says which files there are."""
    import pyarrow.dataset as dataset

    if form == "delta":
        import deltalake

        return of_table(deltalake.DeltaTable(path).to_pyarrow_table())
    read = {"ndjson": "json", "csv": dataset.CsvFileFormat(convert_options=nulls())}.get(form, form)
    return of_table(dataset.dataset(path, format=read).to_table())


def nulls():
    """An empty cell is NULL, `""` is an empty text."""
    from pyarrow import csv

    return csv.ConvertOptions(strings_can_be_null=True, quoted_strings_can_be_null=False)


def by_duckdb(form, path):
    import duckdb

    con = duckdb.connect()
    if form == "delta":
        import duckdb_extension_delta

        home = Path(duckdb_extension_delta.__file__).parent
        con.load_extension(next(str(file) for file in home.rglob("delta.duckdb_extension")))
        rows = f"delta_scan('{path}')"
    else:
        read = {"parquet": "read_parquet", "csv": "read_csv", "ndjson": "read_json"}[form]
        rows = f"{read}('{path}/*.{form}')"
    return list(con.sql(f"select count(*), sum(id)::bigint, count(name) from {rows}").fetchone())


def by_spark():
    from pyspark.sql import SparkSession, functions

    jars = ",".join(glob.glob(os.path.join(os.environ["DELTA_JARS"], "*.jar")))
    build = SparkSession.builder.master("local[1]").config("spark.jars", jars)
    build = build.config("spark.ui.enabled", "false").config("spark.driver.bindAddress", "127.0.0.1")
    build = build.config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
    build = build.config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
    build = build.config("spark.sql.shuffle.partitions", "1").config("spark.ui.showConsoleProgress", "false")
    build = build.config("spark.databricks.delta.snapshotPartitions", "1")
    spark = build.config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1").getOrCreate()

    def figures(form, path):
        read = spark.read.format({"ndjson": "json"}.get(form, form)).option("header", "true")
        rows = read.load(path).agg(functions.count("*"), functions.sum("id").cast("long"), functions.count("name"))
        return list(rows.first())

    return figures


def main():
    reader, *rest = sys.argv[1:]
    figures = {"arrow": lambda: by_arrow, "duckdb": lambda: by_duckdb, "spark": by_spark}[reader]()
    for form, path in zip(rest[::2], rest[1::2]):
        print(json.dumps(figures(form, path)), flush=True)
    # The threads of deltalake do not always survive the end of the interpreter.
    os._exit(0)


if __name__ == "__main__":
    main()
