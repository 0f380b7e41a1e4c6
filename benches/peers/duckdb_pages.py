"""DuckDB: `read_json` with explicit types over given URLs (`json`), or `from_json` over whole texts (`text`).

All columns are materialised in a table, then summed; with three, the query reads them at once. It does not page: it is given
every URL.
"""
import os
import sys

import duckdb
import duckdb_extension_httpfs
from query import SUMMED, TYPES, WIDTH, say, urls

NAMES = {"int32": "INTEGER", "int64": "BIGINT", "float64": "DOUBLE", "string": "VARCHAR", "date": "DATE",
         "timestamp": "TIMESTAMP", "boolean": "BOOLEAN"}
base = os.path.dirname(duckdb_extension_httpfs.__file__)
con = duckdb.connect()
con.execute(f"LOAD '{base}/extensions/v{duckdb.__version__}/httpfs.duckdb_extension'")
con.execute("SET force_download = true")
record = "STRUCT(" + ", ".join(f"{name} {NAMES[of]}" for name, of in TYPES.items()) + ")"
if sys.argv[5] == "json":
    con.execute("SET preserve_insertion_order = false")
    pages = "SELECT unnest(data, recursive := true) FROM read_json($urls, format = 'unstructured', " \
            f"columns = {{data: '{record}[]'}}, maximum_object_size = 33554432)"
else:
    shape = '{"data": [{' + ", ".join(f'"{name}": "{NAMES[of]}"' for name, of in TYPES.items()) + "}]}"
    pages = f"SELECT unnest(from_json(content, '{shape}').data, recursive := true) FROM read_text($urls)"
given = {"urls": urls()}
if WIDTH == "all":
    con.execute(f"CREATE TABLE pages AS {pages}", given)
    pages, given = "FROM pages", {}
number, small, amount = SUMMED
say(*con.execute(f"SELECT count(*), sum({number}), sum({small}), sum({amount}) FROM ({pages})", given).fetchone())
