"""The peer of benches/spark.py: a plain Python data source that pages with requests and json, as rows or as Arrow."""
import json
from datetime import datetime

import pyarrow as pa
import requests
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema

BATCH = 10_000


class Window(InputPartition):
    """Some records of the table."""

    def __init__(self, start, count):
        self.start, self.count = start, count


class RequestsSource(DataSource):
    """`format("requests")`: `url`, `schema`, `rows`, `parts` and `as` (rows or arrow)."""

    @classmethod
    def name(cls):
        return "requests"

    def schema(self):
        return self.options["schema"]

    def reader(self, schema):
        return Reader(dict(self.options), schema)


class Reader(DataSourceReader):
    """Reads its window page by page."""

    def __init__(self, options, schema):
        self.options, self.columns = options, schema

    def partitions(self):
        parts = int(self.options["parts"])
        each = int(self.options["rows"]) // parts
        return [Window(part * each, each) for part in range(parts)]

    def pages(self, window):
        session, at, end = requests.Session(), window.start, window.start + window.count
        while at < end:
            answer = session.get(self.options["url"], params={"offset": at, "limit": min(5000, end - at)}, timeout=30)
            answer.raise_for_status()
            page = json.loads(answer.content)["data"]
            for record in page:
                for name in self.times():
                    record[name] = datetime.fromisoformat(record[name].replace("Z", "+00:00"))
            yield page
            at += len(page)

    def times(self):
        return [field.name for field in self.columns if field.dataType.typeName() == "timestamp"]

    def read(self, partition):
        names = self.columns.names
        if self.options["as"] == "rows":
            for page in self.pages(partition):
                for record in page:
                    yield tuple(record[name] for name in names)
            return
        schema, held = to_arrow_schema(self.columns, timezone="UTC"), []
        for page in self.pages(partition):
            held += page
            while len(held) >= BATCH:
                yield pa.RecordBatch.from_pylist(held[:BATCH], schema=schema)
                held = held[BATCH:]
        if held:
            yield pa.RecordBatch.from_pylist(held, schema=schema)
