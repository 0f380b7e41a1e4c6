"""Where a test takes place: a folder with a configuration, its records, and the state that reads leave."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, DataFrameReader, SparkSession

from scripted import PATIENCE, Api

# Not the same: each process answers for itself.
DRIVERS_TOKEN = "the-drivers-own-4711"
EXECUTORS_TOKEN = "the-executors-own-0815"
COLUMNS = {"id": "int64", "at": "timestamp", "kind": "string", "amount": "float64"}


class Place:
    """A folder with a configuration, and the state that reads leave there."""

    def __init__(self, folder: Path, api: Api) -> None:
        self.folder = folder
        self.api = api
        self.config = folder / "api.conf"
        self.tables: dict[str, dict[str, Any]] = {}
        self.settings: dict[str, Any] = {"http": {"max-retries": 0}}

    def table(self, name: str, checkpoint: bool | dict[str, str] = False, **more: Any) -> None:
        """Describes a table of the API, with more keys of its checkpoint where it has one."""
        self.tables[name] = {
            "endpoint": f"/{name}",
            "data-path": "/rows",
            "pagination": {"style": "cursor", "cursor-path": "/next", "cursor-param": "cursor"},
            "columns": {column: {"type": of} for column, of in COLUMNS.items()},
        } | more
        if checkpoint:
            self.tables[name]["checkpoint"] = {
                "enabled": True, "path": str(self.folder / "state"), "mode": "timestamp", "timestamp-path": "/at",
                "timestamp-param": "since",
            } | (checkpoint if isinstance(checkpoint, dict) else {})
        text = {
            "base-url": self.api.base,
            "auth": {"type": "bearer", "token": "${API_TOKEN}"},
            "tables": self.tables,
        } | self.settings
        # A quoted variable is none.
        self.config.write_text(json.dumps(text, indent=1).replace('"${API_TOKEN}"', "${API_TOKEN}"))

    def reader(self, spark: SparkSession, table: str, **options: str) -> DataFrameReader:
        reader = spark.read.format("restmark").option("config", str(self.config)).option("table", table)
        return reader.options(**options)

    def load(self, spark: SparkSession, table: str, **options: str) -> DataFrame:
        return self.reader(spark, table, **options).load()

    def mark(self, table: str) -> str | None:
        """Where the checkpoint stands."""
        path = self.folder / "state" / f"{table}.checkpoint.json"
        return json.loads(path.read_text())["value"] if path.exists() else None

    def receipts(self) -> list[Path]:
        """Receipts that are left in the store."""
        return [path for path in (self.folder / "state").glob("*.receipts/**/*") if path.is_file()]


def eventually(holds: Callable[[], bool]) -> None:
    """Waits until it holds; a test that waits longer has failed."""
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.05)


def records(first: int, last: int) -> list[dict[str, Any]]:
    """Records of consecutive seconds."""
    return [
        {"id": n, "at": at(n), "kind": "even" if n % 2 == 0 else "odd", "amount": n / 4} for n in range(first, last + 1)
    ]


def at(second: int) -> str:
    """The timestamp of a record."""
    return f"2026-01-01T{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}Z"
