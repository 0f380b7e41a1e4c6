"""One cluster and one session for all tests, an API for each."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest
from pyspark.sql import DataFrame, DataFrameReader, SparkSession

import restmark.spark
from cluster import FAST_START, Cluster, lacking
from scripted import Api

# Not the same: each process answers for itself.
DRIVERS_TOKEN = "the-drivers-own-4711"
EXECUTORS_TOKEN = "the-executors-own-0815"


def unavailable(reason: str) -> NoReturn:
    """Skips with the reason, or fails where nothing may be skipped."""
    (pytest.fail if os.environ.get("RESTMARK_FORBID_SKIPS") else pytest.skip)(reason)
    raise AssertionError(reason)


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    if reason := lacking():
        unavailable(reason)
    cluster = Cluster({"API_TOKEN": EXECUTORS_TOKEN})
    yield cluster
    cluster.stop()


@pytest.fixture(scope="session")
def event_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("events")


@pytest.fixture(scope="session")
def session(cluster: Cluster, event_log: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    os.environ |= {
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "API_TOKEN": DRIVERS_TOKEN,
    }
    settings = {
        "spark.driver.extraJavaOptions": FAST_START,
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": event_log.as_uri(),
        "spark.eventLog.enabled": "true",
        "spark.executor.cores": "1",
        "spark.executor.extraJavaOptions": FAST_START,
        "spark.executor.memory": "512m",
        "spark.speculation": "true",
        "spark.speculation.efficiency.enabled": "false",
        "spark.speculation.quantile": "0.5",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": tmp_path_factory.mktemp("warehouse").as_uri(),
        "spark.ui.enabled": "false",
    }
    builder = SparkSession.builder.master(cluster.url).appName("restmark tests")
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    yield spark
    spark.stop()


@pytest.fixture
def spark(session: SparkSession) -> SparkSession:
    session.dataSource.register(restmark.spark.RestmarkSource)
    return session


@pytest.fixture
def api() -> Iterator[Api]:
    api = Api()
    yield api
    api.stop()


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


@pytest.fixture
def place(tmp_path: Path, api: Api) -> Place:
    return Place(tmp_path, api)


def records(first: int, last: int) -> list[dict[str, Any]]:
    """Records of consecutive seconds."""
    return [
        {"id": n, "at": at(n), "kind": "even" if n % 2 == 0 else "odd", "amount": n / 4} for n in range(first, last + 1)
    ]


def at(second: int) -> str:
    """The timestamp of a record."""
    return f"2026-01-01T{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}Z"
