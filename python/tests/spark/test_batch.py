"""Batch reads without a checkpoint: columns, partitions, options, errors, and secrets that stay where they are."""

from __future__ import annotations

import json
import logging
import pickle
from pathlib import Path

import pytest
from pyspark import cloudpickle
from pyspark.sql import SparkSession
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.types import (
    DoubleType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from restmark.spark import RestmarkSource, checkpointed

from place import DRIVERS_TOKEN, EXECUTORS_TOKEN, Place, at, eventually, records


@pytest.fixture
def events(place: Place) -> Place:
    place.api.tables["events"] = records(1, 250)
    place.table("events")
    return place


def planned(place: Place, table: str, **options: str) -> RestmarkSource:
    """The data source as Spark makes it in its planning process."""
    return RestmarkSource(CaseInsensitiveDict({"config": str(place.config), "table": table} | options))


def test_columns_and_rows_arrive_as_they_are(spark: SparkSession, events: Place) -> None:
    df = events.load(spark, "events")
    assert df.schema == StructType(
        [
            StructField("id", LongType()),
            StructField("at", TimestampType()),
            StructField("kind", StringType()),
            StructField("amount", DoubleType()),
        ]
    )
    row = df.where("id = 7").selectExpr("id", "date_format(at, 'yyyy-MM-dd HH:mm:ss') AS at", "kind", "amount").first()
    assert row.asDict() == {"id": 7, "at": "2026-01-01 00:00:07", "kind": "odd", "amount": 1.75}
    assert df.selectExpr("count(*)", "sum(id)", "sum(amount)").first() == (250, 250 * 251 // 2, 250 * 251 / 8)


def test_r30_partitions_become_tasks_that_cover_the_table_once(spark: SparkSession, events: Place) -> None:
    events.table("events", partition={"type": "enum", "param": "kind", "values": ["odd", "even"]})
    df = events.load(spark, "events")
    assert df.rdd.getNumPartitions() == 2
    assert sorted(row.id for row in df.collect()) == list(range(1, 251))
    assert {request.query["kind"] for request in events.api.requested("events")} == {"odd", "even"}


def test_r21_partitions_divide_the_rate(spark: SparkSession, events: Place) -> None:
    """Each part knows how many there are: the ceiling is not taken by every executor."""
    events.settings["http"] = {"rate-limit": 1000}
    events.table("events", partition={"type": "enum", "param": "kind", "values": ["odd", "even"]})
    parts = planned(events, "events").reader(events.load(spark, "events").schema).partitions()
    assert len(parts) == 2
    shares = [json.loads(part.plan)["partitions"][0]["share"] for part in parts]
    assert shares == [{"number": 0, "of": 2}, {"number": 1, "of": 2}]


def test_batches_have_ten_thousand_rows(events: Place) -> None:
    events.api.tables["events"] = records(1, 25_000)
    source = planned(events, "events")
    reader = source.reader(source.schema())
    (part,) = reader.partitions()
    assert [batch.num_rows for batch in reader.read(part)] == [10_000, 10_000, 5_000]


def test_a_table_without_rows_is_empty(spark: SparkSession, events: Place) -> None:
    events.api.tables["events"] = []
    assert events.load(spark, "events").count() == 0


def test_a_schema_picks_columns_and_their_order(spark: SparkSession, events: Place) -> None:
    df = events.reader(spark, "events").schema("amount double, id long").load()
    assert df.where("id = 4").first() == (1.0, 4)
    assert events.load(spark, "events", select="kind, id").columns == ["kind", "id"]


@pytest.mark.parametrize(
    ("schema", "says"),
    [
        ("id int", "events.id is bigint and may be NULL, not int: cast it"),
        ("id long NOT NULL", "not bigint NOT NULL"),
        ("idd long", "no column idd; did you mean id?"),
    ],
)
def test_a_schema_converts_nothing(spark: SparkSession, events: Place, schema: str, says: str) -> None:
    with pytest.raises(Exception, match=says.replace("?", r"\?")):
        events.reader(spark, "events").schema(schema).load().collect()


def test_where_is_applied_by_restmark(spark: SparkSession, events: Place) -> None:
    events.table("events", filters=[{"param": "kind", "column": "kind", "operators": ["eq"]}])
    assert events.load(spark, "events", where="kind = 'odd' AND id > 100").count() == 75
    assert {request.query["kind"] for request in events.api.requested("events")} == {"odd"}


def test_options_that_are_wrong_are_named_all_at_once(spark: SparkSession, events: Place) -> None:
    reader = events.reader(spark, "events", wehre="x", full="yes", **{"max-window": "soon"})
    with pytest.raises(Exception) as caught:
        reader.load()
    said = str(caught.value)
    assert "wehre is no option; did you mean where?" in said
    assert "full = 'yes': true or false" in said
    assert "max-window = 'soon'" in said


@pytest.mark.parametrize("option", [{"starting": "now"}, {"max-window": "1h"}])
def test_an_option_of_streams_is_refused_in_a_batch(spark: SparkSession, events: Place, option: dict) -> None:
    with pytest.raises(Exception, match="not for a batch read"):
        events.load(spark, "events", **option).collect()


def test_full_is_refused_where_it_would_do_nothing(spark: SparkSession, events: Place) -> None:
    with pytest.raises(Exception, match="ConfigError.*full: events has no checkpoint"):
        events.load(spark, "events", full="true").collect()


def test_an_empty_where_is_a_mistake(spark: SparkSession, events: Place) -> None:
    with pytest.raises(Exception, match="ConfigError.*where = ' ': a predicate"):
        events.load(spark, "events", where=" ").collect()


def test_a_schema_without_columns_is_refused(spark: SparkSession, events: Place) -> None:
    """Spark would count no rows in it."""
    with pytest.raises(Exception, match="SchemaError.*without columns"):
        events.reader(spark, "events").schema(StructType([])).load().count()


def test_r11_problems_of_the_configuration_reach_the_driver(spark: SparkSession, events: Place) -> None:
    events.config.write_text(events.config.read_text().replace('"cursor-path"', '"cursor-pth"'))
    with pytest.raises(Exception) as caught:
        events.load(spark, "events")
    assert "ConfigError" in str(caught.value)
    assert "cursor-pth" in str(caught.value) and "cursor-path" in str(caught.value)


def test_an_unknown_table_names_its_neighbour(spark: SparkSession, events: Place) -> None:
    with pytest.raises(Exception, match=r"no table evnts; did you mean events\?"):
        events.load(spark, "evnts")


def test_an_error_of_the_api_reaches_the_driver(spark: SparkSession, events: Place) -> None:
    events.api.fail("events", page=1, times=100)
    with pytest.raises(Exception, match="(?s)HttpError.*500"):
        events.load(spark, "events").collect()


def test_r23_each_process_answers_for_the_secret_itself(spark: SparkSession, events: Place) -> None:
    """The driver samples the API by its own token, the executors read by theirs."""
    events.settings["schema"] = {"mode": "infer"}
    events.table("events", columns={})
    assert events.load(spark, "events").count() == 250
    first, *others = [request.token for request in events.api.requested("events")]
    assert first == DRIVERS_TOKEN
    assert set(others) == {EXECUTORS_TOKEN}


def test_the_api_is_sampled_once(spark: SparkSession, events: Place) -> None:
    events.settings["schema"] = {"mode": "infer"}
    events.table("events", columns={})
    df = events.load(spark, "events")
    assert len(events.api.requested("events")) == 1
    assert (df.count(), df.count()) == (250, 250)
    assert len(events.api.requested("events")) == 1 + 2 * 3


def test_r23_no_secret_is_in_what_travels(spark: SparkSession, events: Place) -> None:
    source = planned(events, "events")
    reader = source.reader(source.schema())
    travels = cloudpickle.dumps((source, reader, reader.partitions()))
    assert b"API_TOKEN" in travels
    assert DRIVERS_TOKEN.encode() not in travels
    assert pickle.loads(travels)[1].origin == reader.origin


def test_r23_a_secret_in_the_file_does_not_travel(spark: SparkSession, events: Place) -> None:
    events.config.write_text(events.config.read_text().replace("${API_TOKEN}", '"written-out-secret"'))
    with pytest.raises(Exception) as caught:
        events.load(spark, "events")
    assert "ConfigError" in str(caught.value) and "token" in str(caught.value)
    assert "written-out-secret" not in str(caught.value)


def test_r23_no_secret_is_in_sparks_log_or_plan(
    spark: SparkSession, events: Place, event_log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    df = events.load(spark, "events")
    df.collect()
    df.explain(extended=True)
    explained = capsys.readouterr().out
    assert "BatchScan restmark" in explained

    def logged() -> str:
        return "".join(path.read_text() for path in event_log.rglob("*") if path.is_file())

    eventually(lambda: "BatchScan restmark" in logged())
    for secret in (DRIVERS_TOKEN, EXECUTORS_TOKEN):
        assert secret not in explained
        assert secret not in logged()


def test_a_checkpoint_that_nobody_settles_is_told_once(
    spark: SparkSession, events: Place, caplog: pytest.LogCaptureFixture
) -> None:
    events.table("events", checkpoint=True)
    source = planned(events, "events")
    with caplog.at_level(logging.WARNING):
        parts = source.reader(source.schema()).partitions()
    assert [part.leaves_receipts for part in parts] == [False]
    assert caplog.text.count("events has a checkpoint, and nobody commits it") == 1


def test_r01_without_a_block_nothing_moves(spark: SparkSession, events: Place) -> None:
    events.table("events", checkpoint=True)
    assert events.load(spark, "events").count() == 250
    assert events.mark("events") is None
    assert events.receipts() == []


def test_full_reads_from_the_beginning(spark: SparkSession, events: Place) -> None:
    events.table("events", checkpoint=True)
    with checkpointed(spark):
        events.load(spark, "events").collect()
    assert events.load(spark, "events").count() == 1
    assert events.load(spark, "events", full="true").count() == 250
    assert events.mark("events") == at(250)


def test_r31_the_elements_of_an_array_are_a_table(spark: SparkSession, place: Place) -> None:
    place.api.tables["orders"] = [{"id": n, "lines": [{"sku": f"a{n}"}, {"sku": "b"}]} for n in range(3)]
    place.settings["schema"] = {"mode": "infer", "array-handling": "explode_view"}
    place.table("orders", columns={})
    lines = place.load(spark, "orders_lines")
    assert lines.columns == ["id", "lines_sku"]
    assert sorted(row.lines_sku for row in lines.collect()) == ["a0", "a1", "a2", "b", "b", "b"]
