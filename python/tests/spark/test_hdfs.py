"""State that every host can see: checkpoints, receipts and the logs of streams on HDFS."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from hdfs import Hdfs, lacking
from pyspark.sql import SparkSession

from restmark.spark import checkpointed

from place import Place, at, records


@pytest.fixture(scope="module")
def hdfs() -> Iterator[Hdfs]:
    if reason := lacking():
        pytest.skip(reason)
    hdfs = Hdfs()
    yield hdfs
    hdfs.stop()


@pytest.fixture
def events(place: Place, hdfs: Hdfs) -> Place:
    place.api.tables["events"] = records(1, 250)
    place.table("events", checkpoint={"path": f"{hdfs.url}/state"})
    return place


def files(spark: SparkSession, url: str) -> list[str]:
    """The names below a folder."""
    path = spark.sparkContext._jvm.org.apache.hadoop.fs.Path(url)
    found = path.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration()).listFiles(path, True)
    names = []
    while found.hasNext():
        names.append(found.next().getPath().getName())
    return sorted(names)


def test_r02_a_block_commits_on_hdfs(spark: SparkSession, events: Place, hdfs: Hdfs) -> None:
    with checkpointed(spark) as outcomes:
        events.load(spark, "events").write.parquet(f"{hdfs.url}/out")
        assert len([name for name in files(spark, f"{hdfs.url}/state") if "checkpoint" not in name]) == 1
    assert outcomes[0].position == {"type": "timestamp", "value": at(250)}
    assert files(spark, f"{hdfs.url}/state") == ["events.checkpoint.json"]
    stored = spark.read.text(f"{hdfs.url}/state/events.checkpoint.json", wholetext=True).first().value
    assert json.loads(stored)["value"] == at(250)
    assert events.load(spark, "events").count() == 1


def test_r28_a_stream_goes_on_from_a_log_on_hdfs(spark: SparkSession, events: Place, hdfs: Hdfs) -> None:
    options = {"config": str(events.config), "table": "events", "starting": at(100)}

    def run() -> None:
        writer = spark.readStream.format("restmark").options(**options).load().writeStream.format("parquet")
        writer = writer.option("checkpointLocation", f"{hdfs.url}/log").trigger(availableNow=True)
        writer.start(f"{hdfs.url}/rows").awaitTermination()

    run()
    asked = len(events.api.requested("events"))
    run()
    assert sorted(row.id for row in spark.read.parquet(f"{hdfs.url}/rows").collect()) == list(range(101, 251))
    assert all(request.query["since"] > at(250) for request in events.api.requested("events")[asked:])


def test_r09_the_configuration_stands_on_hdfs(spark: SparkSession, events: Place, hdfs: Hdfs) -> None:
    # The state of another test is that of another API.
    events.table("events", checkpoint={"path": f"{hdfs.url}/other"})
    hadoop = spark.sparkContext._jvm.org.apache.hadoop.fs
    there = hadoop.Path(f"{hdfs.url}/conf/api.conf")
    store = there.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration())
    store.copyFromLocalFile(hadoop.Path(str(events.config)), there)
    df = spark.read.format("restmark").options(config=f"{hdfs.url}/conf/api.conf", table="events").load()
    assert df.count() == 250
