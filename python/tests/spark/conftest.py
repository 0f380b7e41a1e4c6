"""One cluster and one session for all tests, an API for each."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import restmark.spark

from cluster import FAST_START, Cluster, lacking
from place import DRIVERS_TOKEN, EXECUTORS_TOKEN, Place, records
from scripted import Api


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    if reason := lacking():
        pytest.skip(reason)
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


@pytest.fixture
def place(tmp_path: Path, api: Api) -> Place:
    return Place(tmp_path, api)


@pytest.fixture
def events(place: Place) -> Place:
    """A table of 250 records in three pages, with a checkpoint."""
    place.api.tables["events"] = records(1, 250)
    place.table("events", checkpoint=True)
    return place
