"""Streams: windows that meet, bounded batches, replays with the same bounds, restarts, and Spark's own log."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from typing import Any

import pyarrow as pa
import pytest
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.streaming import StreamingQuery
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxFiles

import restmark
from restmark.spark import RestmarkSource

from place import Place, at, eventually, records

# The executors cannot import this file.
cloudpickle.register_pickle_by_value(sys.modules[__name__])


class Stream:
    """A stream of a table into parquet files, started anew as often as a test likes."""

    def __init__(self, spark: SparkSession, place: Place, **options: str) -> None:
        self.spark, self.place = spark, place
        self.options = {"config": str(place.config), "table": "events", "starting": "earliest"} | options
        self.log = place.folder / "log"
        self.out = place.folder / "out"

    def load(self) -> DataFrame:
        return self.spark.readStream.format("restmark").options(**self.options).load()

    def start(self, df: DataFrame | None = None) -> StreamingQuery:
        writer = (self.load() if df is None else df).writeStream.format("parquet")
        return writer.option("checkpointLocation", str(self.log)).trigger(availableNow=True).start(str(self.out))

    def run(self, df: DataFrame | None = None) -> None:
        self.start(df).awaitTermination()

    def ids(self) -> list[int]:
        return sorted(row.id for row in self.spark.read.parquet(str(self.out)).collect())

    def offsets(self) -> list[dict[str, Any]]:
        """The ends of the batches, as Spark's log has them."""
        logged = sorted((self.log / "offsets").glob("[0-9]*"), key=lambda path: int(path.name))
        return [json.loads(path.read_text().splitlines()[2]) for path in logged]


def planned(place: Place, **options: str) -> Any:
    """The stream reader as Spark makes it in its planning process."""
    source = RestmarkSource(CaseInsensitiveDict({"config": str(place.config), "table": "events"} | options))
    return source.streamReader(source.schema())


def test_r27_available_now_reads_what_there_is_and_ends(spark: SparkSession, events: Place) -> None:
    stream = Stream(spark, events)
    stream.run()
    assert stream.ids() == list(range(1, 251))
    start, end = stream.offsets()
    assert start == {"type": "timestamp", "value": None}
    assert end["type"] == "timestamp"
    assert datetime.strptime(end["value"], "%Y-%m-%dT%H:%M:%SZ").year >= 2026


def test_r28_no_checkpoint_file_of_the_table_is_touched(spark: SparkSession, events: Place) -> None:
    Stream(spark, events).run()
    assert not (events.folder / "state").exists() or list((events.folder / "state").rglob("*")) == []


def test_r27_long_absences_become_bounded_batches(spark: SparkSession, events: Place) -> None:
    now = datetime.now(timezone.utc).replace(microsecond=0)
    start = now - timedelta(hours=5, minutes=30)
    stamps = [(start + timedelta(minutes=m)).strftime("%Y-%m-%dT%H:%M:%SZ") for m in range(0, 320, 10)]
    events.api.tables["events"] = [{"id": n, "at": stamp, "kind": "k", "amount": 1.0} for n, stamp in enumerate(stamps)]
    stream = Stream(spark, events, **{"starting": stamps[0], "max-window": "2h"})
    stream.run()
    # The record of the start itself lies before the first window.
    assert stream.ids() == list(range(1, len(stamps)))
    ends = [datetime.strptime(offset["value"], "%Y-%m-%dT%H:%M:%SZ") for offset in stream.offsets()]
    widths = [after - before for before, after in zip(ends, ends[1:], strict=False)]
    assert ends[0].strftime("%Y-%m-%dT%H:%M:%SZ") == stamps[0]
    assert widths[:2] == [timedelta(hours=2)] * 2 and len(widths) == 3
    assert timedelta() < widths[2] <= timedelta(hours=2)


def test_r27_a_restart_goes_on_where_the_last_run_ended(spark: SparkSession, events: Place) -> None:
    stream = Stream(spark, events)
    stream.run()
    end = stream.offsets()[-1]["value"]
    later = datetime.strptime(end, "%Y-%m-%dT%H:%M:%SZ") + timedelta(seconds=1)
    events.api.tables["events"].append(
        {"id": 251, "at": later.strftime("%Y-%m-%dT%H:%M:%SZ"), "kind": "odd", "amount": 0.0}
    )
    before = len(events.api.requested("events"))
    wait_for_horizon(events, later)
    stream.run()
    assert stream.ids() == list(range(1, 252))
    assert {request.query.get("since") for request in events.api.requested("events")[before:]} == {end}


def test_r27_a_new_stream_records_its_start_even_when_it_is_empty(spark: SparkSession, events: Place) -> None:
    stream = Stream(spark, events, starting="now")
    stream.run()
    start = stream.offsets()[0]["value"]
    assert len(events.api.requested("events")) <= 1
    later = datetime.strptime(start, "%Y-%m-%dT%H:%M:%SZ") + timedelta(seconds=1)
    events.api.tables["events"].append(
        {"id": 251, "at": later.strftime("%Y-%m-%dT%H:%M:%SZ"), "kind": "odd", "amount": 0.0}
    )
    wait_for_horizon(events, later)
    stream.run()
    # What is dated between the start and the restart is there, what is older is not.
    assert stream.ids() == [251]


def test_r28_a_failed_batch_is_replayed_with_the_same_bounds(spark: SparkSession, events: Place) -> None:
    stream = Stream(spark, events)

    def failing(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            raise OSError("disk full")
        yield from ()

    df = stream.load()
    with pytest.raises(Exception, match="disk full"):
        stream.run(df.mapInArrow(failing, df.schema))
    failed = stream.offsets()
    assert not (stream.log / "commits" / str(len(failed) - 1)).exists()
    # Later than the window that was begun: it belongs to the next one.
    end = datetime.strptime(failed[-1]["value"], "%Y-%m-%dT%H:%M:%SZ")
    later = (end + timedelta(seconds=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    events.api.tables["events"].append({"id": 251, "at": later, "kind": "odd", "amount": 0.0})
    wait_for_horizon(events, end + timedelta(seconds=1))
    stream.run()
    assert stream.offsets()[: len(failed)] == failed
    assert stream.ids() == list(range(1, 252))
    assert batches_of(stream)[251] == len(failed)


def test_r27_starting_at_an_instant(spark: SparkSession, events: Place) -> None:
    stream = Stream(spark, events, starting=at(200))
    stream.run()
    assert stream.ids() == list(range(201, 251))


def test_r27_lag_holds_the_end_back(events: Place) -> None:
    plain = planned(events, starting="now").initialOffset()["value"]
    events.table("events", checkpoint={"lag": "1h"})
    held = planned(events, starting="now").initialOffset()["value"]
    gap = datetime.strptime(plain, "%Y-%m-%dT%H:%M:%SZ") - datetime.strptime(held, "%Y-%m-%dT%H:%M:%SZ")
    assert timedelta(minutes=58) < gap <= timedelta(hours=1)


def test_r27_offsets_are_a_function_of_what_spark_remembers(events: Place) -> None:
    reader = planned(events, **{"starting": at(0), "max-window": "1m"})
    first = reader.initialOffset()
    assert first == {"type": "timestamp", "value": at(0), "new": True}
    started = reader.latestOffset(first, ReadMaxFiles(1))
    assert started == {"type": "timestamp", "value": at(0)}
    # The first batch records the start and nothing else, whatever the start is when it is replayed.
    assert reader.partitions(first, started) == []
    assert reader.latestOffset(started, ReadMaxFiles(1)) == {"type": "timestamp", "value": at(60)}
    assert reader.partitions(started, started) == []
    # Spark says when a limit is not to be kept.
    assert reader.latestOffset(started, ReadAllAvailable())["value"] > at(60)
    future = {"type": "timestamp", "value": "2999-01-01T00:00:00Z"}
    assert reader.latestOffset(future, ReadMaxFiles(1)) == future


def test_r27_a_window_beyond_the_calendar_ends_where_there_is_something(events: Place) -> None:
    reader = planned(events, **{"starting": at(0), "max-window": "999999999d"})
    end = reader.latestOffset({"type": "timestamp", "value": at(0)}, ReadMaxFiles(1))["value"]
    assert at(0) < end < "9999"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"starting": "yesterday"}, "starting = 'yesterday'"),
        ({"starting": "2026-01-01T00:00:00"}, "an instant with its zone"),
        ({"max-window": "0s"}, "at least a second"),
        ({"max-window": "1.5h"}, "whole seconds"),
        ({"max-window": "9999999999d"}, "(?s)ConfigError.*max-window = '9999999999d'"),
        ({"starting": "0001-01-01T00:00:00+05:00"}, "(?s)ConfigError.*the years 1 to 9999"),
        ({"full": "true"}, "full: not for a stream"),
    ],
)
def test_options_of_a_stream_are_checked(spark: SparkSession, events: Place, options: dict, says: str) -> None:
    with pytest.raises(Exception, match=says):
        Stream(spark, events, **options).run()


def test_r12_a_table_without_timestamps_cannot_be_streamed(spark: SparkSession, events: Place) -> None:
    events.table("events")
    with pytest.raises(Exception, match="(?s)ConfigError.*timestamp"):
        Stream(spark, events).run()


def wait_for_horizon(place: Place, until: datetime) -> None:
    """Waits until a window that is prepared now reaches that far."""
    reader = planned(place, starting="now")
    wanted = until.strftime("%Y-%m-%dT%H:%M:%SZ")
    eventually(lambda: reader.initialOffset()["value"] >= wanted)


def batches_of(stream: Stream) -> dict[int, int]:
    """The batch in which each record was written, by the log of Spark's file sink."""
    found = {}
    for log in sorted((stream.out / "_spark_metadata").glob("[0-9]*")):
        for line in log.read_text().splitlines()[1:]:
            path = json.loads(line)["path"].removeprefix("file://")
            for row in stream.spark.read.parquet(path).select("id").collect():
                found[row.id] = int(log.name)
    return found


def test_a_spark_without_bounded_streams_is_told(events: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    source = RestmarkSource(CaseInsensitiveDict({"config": str(events.config), "table": "events"}))
    monkeypatch.delitem(sys.modules, "restmark.spark.stream", raising=False)
    monkeypatch.setitem(sys.modules, "pyspark.sql.streaming.datasource", None)
    with pytest.raises(restmark.ConfigError, match=r"Spark 4\.3"):
        source.streamReader(source.schema())
