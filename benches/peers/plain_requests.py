"""What people write: `requests`, `json`, and a pyarrow table of each page, summed with pyarrow."""
import pyarrow as pa
import pyarrow.compute as pc
import requests
from query import BASE, KIND, PAGES, SUMMED, TYPES, say

ARROW = {"int32": pa.int32(), "int64": pa.int64(), "float64": pa.float64(), "boolean": pa.bool_()}
# Times stay texts, as `json` gives them.
schema = pa.schema([(name, ARROW.get(of, pa.string())) for name, of in TYPES.items()])
session, cursor, tables = requests.Session(), None, []
while True:
    params = {"cursor": cursor} if cursor else {}
    page = session.get(f"{BASE}/{KIND}/cursor/{PAGES}/0/plain", params=params, timeout=30).json()
    tables.append(pa.Table.from_pylist(page["data"], schema=schema))
    cursor = page["next"]
    if not cursor:
        break
table = pa.concat_tables(tables)
say(table.num_rows, *(pc.sum(table[name]).as_py() for name in SUMMED))
