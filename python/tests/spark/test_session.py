"""A session that commits by itself: every write that took a whole table."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

import restmark.spark
from restmark.spark import checkpointed, settle

from place import Place, at, records


@pytest.fixture(scope="module")
def listening(session: SparkSession) -> SparkSession:
    """A session of its own on the shared cluster."""
    other = session.newSession()
    restmark.spark.register(other)
    return other


@pytest.fixture
def events(place: Place, listening: SparkSession) -> Iterator[Place]:
    place.api.tables["events"] = records(1, 250)
    place.table("events", checkpoint=True)
    yield place
    # What this test left waiting is nothing to the next one.
    settle(listening)


def of(place: Place, outcomes: list) -> list:
    """The outcomes of this place's plans that are done."""
    return [(outcome.table, outcome.position) for outcome in outcomes if outcome.reason is None]


def test_r02_a_write_commits_without_a_block(listening: SparkSession, events: Place) -> None:
    events.load(listening, "events").write.parquet(str(events.folder / "out"))
    assert of(events, settle(listening)) == [("events", {"type": "timestamp", "value": at(250)})]
    assert events.mark("events") == at(250)
    assert events.receipts() == []


def test_r02_a_look_does_not(listening: SparkSession, events: Place) -> None:
    df = events.load(listening, "events")
    assert df.count() == 250
    assert any("is no write" in (outcome.reason or "") for outcome in settle(listening))
    assert events.mark("events") is None
    df.write.parquet(str(events.folder / "out"))
    settle(listening)
    assert events.mark("events") == at(250)


def test_r02_a_write_that_failed_does_not(listening: SparkSession, events: Place) -> None:
    with pytest.raises(Exception, match="CAST_INVALID_INPUT"):
        events.load(listening, "events").selectExpr("cast(kind AS int)").write.parquet(str(events.folder / "out"))
    settle(listening)
    assert events.mark("events") is None


def test_r08_a_commit_that_fails_is_logged(
    listening: SparkSession, events: Place, caplog: pytest.LogCaptureFixture
) -> None:
    df = events.load(listening, "events")
    assert df.count() == 250
    other = '{"type":"timestamp","value":"2026-01-01T00:00:07Z"}'
    (events.folder / "state" / "events.checkpoint.json").write_text(other)
    with caplog.at_level(logging.WARNING):
        df.write.parquet(str(events.folder / "out"))
        settle(listening)
    assert events.mark("events") == at(7)
    assert "events: the checkpoint stays where it was" in caplog.text


def test_r02_a_block_of_such_a_session_is_a_block(listening: SparkSession, events: Place) -> None:
    with pytest.raises(KeyError):
        with checkpointed(listening):
            events.load(listening, "events").write.parquet(str(events.folder / "out"))
            raise KeyError
    settle(listening)
    assert events.mark("events") is None
    events.load(listening, "events").write.parquet(str(events.folder / "again"))
    settle(listening)
    assert events.mark("events") == at(250)


def test_r01_what_earlier_looks_left_goes_with_a_later_commit(listening: SparkSession, events: Place) -> None:
    others = settle(listening)
    for _ in range(3):
        assert events.load(listening, "events").count() == 250
    assert len(events.receipts()) == 3
    events.load(listening, "events").write.parquet(str(events.folder / "out"))
    settle(listening)
    assert events.mark("events") == at(250)
    assert events.receipts() == []
    assert settle(listening) == others


def test_r02_statistics_are_no_write(listening: SparkSession, events: Place) -> None:
    events.load(listening, "events").createOrReplaceTempView("looked_at")
    listening.catalog.cacheTable("looked_at")
    listening.sql("ANALYZE TABLE looked_at COMPUTE STATISTICS FOR ALL COLUMNS")
    listening.catalog.uncacheTable("looked_at")
    settle(listening)
    assert events.mark("events") is None


def test_r03_a_receipt_that_nobody_understands_stops_its_own_plan_only(listening: SparkSession, events: Place) -> None:
    assert events.load(listening, "events").count() == 250
    for path in events.receipts():
        path.write_text("garbage")
    events.api.tables["orders"] = records(1, 30)
    events.table("orders", checkpoint=True)
    events.load(listening, "orders").write.parquet(str(events.folder / "out"))
    settle(listening)
    assert (events.mark("events"), events.mark("orders")) == (None, at(30))


def test_register_is_no_part_of_a_block(session: SparkSession) -> None:
    with checkpointed(session), pytest.raises(RuntimeError, match="before its checkpointed block"):
        restmark.spark.register(session)


def test_blocks_do_not_nest(listening: SparkSession) -> None:
    with checkpointed(listening), pytest.raises(RuntimeError, match="one checkpointed block at a time"):
        with checkpointed(listening):
            pass


def test_settle_asks_for_register(session: SparkSession) -> None:
    with pytest.raises(ValueError, match="register"):
        settle(session)


@pytest.mark.parametrize("start", [lambda spark: checkpointed(spark).__enter__(), restmark.spark.register])
def test_spark_connect_is_refused(start) -> None:
    class Connected:
        """A session of Spark Connect has no JVM to ask."""

    with pytest.raises(RuntimeError, match="Spark Connect"):
        start(Connected())
