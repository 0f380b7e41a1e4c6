"""Checkpointed batch reads: what moves a checkpoint on a real cluster, and all that must not."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pyarrow as pa
import pytest
from pyspark import cloudpickle
from pyspark.errors import PythonException
from pyspark.sql import DataFrame, SparkSession

from restmark import ConflictError, RestmarkError
from restmark.spark import checkpointed

from cluster import Cluster
from place import Place, at, eventually, records
from scripted import Request

# The executors cannot import this file.
cloudpickle.register_pickle_by_value(sys.modules[__name__])


def written(df: DataFrame, path: Path) -> DataFrame:
    """Writes the rows, as a query that takes them all."""
    df.write.mode("overwrite").parquet(str(path))
    return df.sparkSession.read.parquet(str(path))


def ids(df: DataFrame) -> list[int]:
    return sorted(row.id for row in df.select("id").collect())


def failing(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Takes every row, then fails."""
    yield from batches
    raise OSError("the task's own disk is full")


def test_r01_a_query_that_took_everything_commits_at_the_end_of_the_block(spark: SparkSession, events: Place) -> None:
    with checkpointed(spark) as outcomes:
        out = written(events.load(spark, "events"), events.folder / "out")
        assert events.mark("events") is None
    assert ids(out) == list(range(1, 251))
    assert events.mark("events") == at(250)
    assert [(o.table, o.position, o.reason) for o in outcomes] == [
        ("events", {"type": "timestamp", "value": at(250)}, None)
    ]
    assert events.receipts() == []


def test_r03_the_next_block_goes_on_where_the_last_one_ended(spark: SparkSession, events: Place) -> None:
    with checkpointed(spark):
        events.load(spark, "events").collect()
    events.api.tables["events"] += records(251, 300)
    with checkpointed(spark):
        out = written(events.load(spark, "events"), events.folder / "out")
    # The bound is inclusive and the table has no dedup-key: the last record comes again.
    assert ids(out) == list(range(250, 301))
    assert events.mark("events") == at(300)


def test_r01_a_limit_commits_nothing(spark: SparkSession, events: Place, caplog: pytest.LogCaptureFixture) -> None:
    with checkpointed(spark) as outcomes:
        written(events.load(spark, "events").limit(1000), events.folder / "out")
    assert events.mark("events") is None
    assert "has a LIMIT" in outcomes[0].reason
    assert "events: the checkpoint stays where it was: query" in caplog.text


LOOKS = [
    lambda df: df.show(3), lambda df: df.take(300), lambda df: next(df.toLocalIterator()), lambda df: df.tail(3),
]


@pytest.mark.parametrize("look", LOOKS)
def test_r01_a_look_commits_nothing(spark: SparkSession, events: Place, look: Callable[[DataFrame], None]) -> None:
    with checkpointed(spark):
        look(events.load(spark, "events"))
    assert events.mark("events") is None
    assert events.receipts() == []


@pytest.mark.parametrize("look", LOOKS)
def test_r01_a_look_holds_nothing_back(spark: SparkSession, events: Place, look: Callable[[DataFrame], None]) -> None:
    with checkpointed(spark):
        df = events.load(spark, "events")
        look(df)
        written(df, events.folder / "out")
    assert events.mark("events") == at(250)


def test_r01_a_write_with_a_limit_is_not_made_good_by_a_count(spark: SparkSession, events: Place) -> None:
    with checkpointed(spark) as outcomes:
        df = events.load(spark, "events")
        assert df.count() == 250
        written(df.limit(10), events.folder / "out")
    assert events.mark("events") is None
    assert "wrote a part of a table" in outcomes[0].reason


def test_r01_a_write_with_a_limit_is_seen_however_the_format_was_written(spark: SparkSession, events: Place) -> None:
    with checkpointed(spark) as outcomes:
        df = spark.read.format("RestMark").option("config", str(events.config)).option("table", "events").load()
        assert df.count() == 250
        written(df.limit(10), events.folder / "out")
    assert events.mark("events") is None
    assert "wrote a part of a table" in outcomes[0].reason


def test_rows_that_the_users_own_function_drops_were_delivered(spark: SparkSession, events: Place) -> None:
    """Spark hands a function all rows, also those it does not ask for: like a filter, not like a LIMIT."""

    def first(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield next(batches).slice(0, 1)

    with checkpointed(spark):
        df = events.load(spark, "events")
        assert written(df.mapInArrow(first, df.schema), events.folder / "out").count() == 1
    assert events.mark("events") == at(250)


def test_r02_a_job_that_fails_after_the_read_commits_nothing(spark: SparkSession, events: Place) -> None:
    with pytest.raises(Exception, match="disk is full"):
        with checkpointed(spark):
            df = events.load(spark, "events")
            written(df.mapInArrow(failing, df.schema), events.folder / "out")
    assert events.mark("events") is None
    assert events.receipts() == []


def test_r02_a_failure_that_is_swallowed_in_the_block_commits_nothing(spark: SparkSession, events: Place) -> None:
    with checkpointed(spark) as outcomes:
        df = events.load(spark, "events")
        assert df.count() == 250
        with suppress(PythonException):
            written(df.mapInArrow(failing, df.schema), events.folder / "out")
    assert events.mark("events") is None
    assert "failed" in outcomes[0].reason


def test_r02_a_failed_job_of_an_rdd_counts_too(spark: SparkSession, events: Place) -> None:
    def fail(_: object) -> None:
        raise OSError("upload refused")

    with checkpointed(spark) as outcomes:
        df = events.load(spark, "events")
        assert df.count() == 250
        with pytest.raises(Exception, match="upload refused"):
            df.rdd.foreach(fail)
    assert events.mark("events") is None
    assert "failed" in outcomes[0].reason


WORK = {
    "query": lambda df, out, slow: written(df.mapInArrow(slow, df.schema), out),
    "job": lambda df, out, slow: df.rdd.foreachPartition(slow),
}


@pytest.mark.parametrize("work", WORK)
def test_r02_what_still_runs_when_the_block_ends_may_yet_fail(
    spark: SparkSession, events: Place, work: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("restmark.spark.status.PATIENCE", 0.0)
    url = f"{events.api.base}/pause-write"
    gate = events.api.hold("pause-write", 0)

    def slow(taken: Iterator[Any]) -> Iterator[Any]:
        taken = list(taken)
        urlopen(url).read()
        return iter(taken)

    with checkpointed(spark) as outcomes:
        df = events.load(spark, "events")
        assert df.count() == 250
        worker = threading.Thread(target=lambda: WORK[work](df, events.folder / "out", slow))
        worker.start()
        gate.wait()
    assert events.mark("events") is None
    assert work in outcomes[0].reason and "is still running" in outcomes[0].reason
    gate.open()
    worker.join()


def test_a_block_within_a_query_is_refused(spark: SparkSession, events: Place) -> None:
    def take(df: DataFrame, number: int) -> None:
        with checkpointed(df.sparkSession):
            written(events.load(df.sparkSession, "events"), events.folder / "out")

    spark.range(1).write.parquet(str(events.folder / "in"))
    stream = spark.readStream.schema("id long").parquet(str(events.folder / "in")).writeStream.foreachBatch(take)
    query = stream.option("checkpointLocation", str(events.folder / "log")).trigger(availableNow=True).start()
    with pytest.raises(Exception, match="never commits"):
        query.awaitTermination()
    assert events.mark("events") is None


def test_r03_a_receipt_that_nobody_understands_stops_its_own_table_only(spark: SparkSession, events: Place) -> None:
    events.api.tables["orders"] = records(1, 30)
    events.table("orders", checkpoint=True)
    with pytest.raises(RestmarkError):
        with checkpointed(spark) as outcomes:
            assert events.load(spark, "events").count() == 250
            assert events.load(spark, "orders").count() == 30
            for path in events.receipts():
                if "events" in path.parent.as_posix().removeprefix(events.folder.as_posix()):
                    path.write_text("garbage")
    assert (events.mark("events"), events.mark("orders")) == (None, at(30))
    assert [outcome.reason is None for outcome in outcomes] == [False, True]


def test_r02_an_exception_of_the_blocks_own_commits_nothing(spark: SparkSession, events: Place) -> None:
    with pytest.raises(KeyError):
        with checkpointed(spark):
            written(events.load(spark, "events"), events.folder / "out")
            raise KeyError("the user's own")
    assert events.mark("events") is None
    assert events.receipts() == []


def test_r02_rows_that_left_as_an_rdd_are_not_proven(spark: SparkSession, events: Place) -> None:
    with checkpointed(spark) as outcomes:
        assert events.load(spark, "events").rdd.count() == 250
    assert events.mark("events") is None
    assert "as an RDD" in outcomes[0].reason


def test_r01_two_queries_over_one_plan_commit_the_lesser(spark: SparkSession, events: Place) -> None:
    with checkpointed(spark):
        df = events.load(spark, "events")
        assert df.count() == 250
        events.api.tables["events"] += records(251, 260)
        assert ids(written(df, events.folder / "out")) == list(range(1, 261))
    # What the first one did not see comes again: it did not reach all consumers.
    assert events.mark("events") == at(250)


def test_r01_a_second_query_that_saw_less_decides(spark: SparkSession, events: Place) -> None:
    """An API that answers from a copy that lags: what was stored is shorter than what was counted."""
    with checkpointed(spark):
        df = events.load(spark, "events")
        assert df.count() == 250
        events.api.tables["events"] = records(1, 240)
        assert ids(written(df, events.folder / "out")) == list(range(1, 241))
    assert events.mark("events") == at(240)


def test_r01_a_second_plan_that_saw_less_decides_too(spark: SparkSession, events: Place) -> None:
    """Before Spark 4.3 every query makes a plan of its own."""
    with checkpointed(spark) as outcomes:
        assert events.load(spark, "events").count() == 250
        events.api.tables["events"] = records(1, 240)
        assert ids(written(events.load(spark, "events"), events.folder / "out")) == list(range(1, 241))
    assert events.mark("events") == at(240)
    assert [outcome.reason is None for outcome in outcomes] == [True, False]


def test_r01_a_sort_reads_twice_and_commits_the_lesser_read(spark: SparkSession, events: Place) -> None:
    """Spark samples the rows for the bounds of its ranges, then reads them again."""
    full = events.api.tables["events"]
    answer = events.api.answer

    def lagging(request: Request) -> tuple[int, dict[str, Any]]:
        if "cursor" not in request.query and events.api.requested("events"):
            events.api.tables["events"] = full[:240]
        return answer(request)

    events.api.answer = lagging  # type: ignore[method-assign]
    with checkpointed(spark):
        out = written(events.load(spark, "events").orderBy("id"), events.folder / "out")
    assert ids(out) == list(range(1, 241))
    assert events.mark("events") == at(240)


def test_r01_of_two_plans_of_a_table_the_first_commits(spark: SparkSession, events: Place) -> None:
    with checkpointed(spark) as outcomes:
        assert events.load(spark, "events").count() == 250
        events.api.tables["events"] += records(251, 260)
        assert events.load(spark, "events").count() == 260
    assert events.mark("events") == at(250)
    assert [outcome.reason is None for outcome in outcomes] == [True, False]


def test_r01_reads_that_ended_at_different_cursors_commit_nothing(spark: SparkSession, events: Place) -> None:
    path = str(events.folder / "state")
    events.tables["events"]["checkpoint"] = {"enabled": True, "path": path, "mode": "cursor"}
    events.table("another")
    with checkpointed(spark) as outcomes:
        df = events.load(spark, "events")
        assert df.count() == 250
        events.api.tables["events"] = records(1, 150)
        assert df.count() == 150
    assert events.mark("events") is None
    assert "none is before the other" in outcomes[0].reason


def test_r01_a_cached_table_commits_by_the_query_that_read_it(spark: SparkSession, events: Place) -> None:
    with checkpointed(spark):
        df = events.load(spark, "events").cache()
        assert df.count() == 250
        assert ids(written(df, events.folder / "out")) == list(range(1, 251))
        df.unpersist()
    assert events.mark("events") == at(250)
    assert len(events.api.requested("events")) == 3


def test_r01_a_self_join_commits(spark: SparkSession, events: Place) -> None:
    with checkpointed(spark):
        df = events.load(spark, "events")
        assert df.alias("a").join(df.alias("b"), "id").count() == 250
    assert events.mark("events") == at(250)


def test_r01_two_tables_in_one_task_commit(spark: SparkSession, events: Place) -> None:
    events.api.tables["orders"] = records(1, 30)
    events.table("orders", checkpoint=True)
    with checkpointed(spark):
        both = events.load(spark, "events").union(events.load(spark, "orders"))
        assert written(both.coalesce(1), events.folder / "out").count() == 280
    assert (events.mark("events"), events.mark("orders")) == (at(250), at(30))


def test_r01_ctas_commits(spark: SparkSession, events: Place) -> None:
    """A write that Spark runs as a query within a query."""
    with checkpointed(spark):
        events.load(spark, "events").createOrReplaceTempView("v")
        spark.sql("CREATE OR REPLACE TEMP VIEW w AS SELECT * FROM v")
        spark.sql("CREATE TABLE taken USING parquet AS SELECT * FROM w")
    assert spark.table("taken").count() == 250
    assert events.mark("events") == at(250)
    spark.sql("DROP TABLE taken")


def test_r08_a_block_that_lost_the_race_raises(spark: SparkSession, events: Place) -> None:
    with pytest.raises(ConflictError):
        with checkpointed(spark):
            df = events.load(spark, "events")
            df.collect()
            (events.folder / "state").mkdir(exist_ok=True)
            (events.folder / "state" / "events.checkpoint.json").write_text(
                '{"type":"timestamp","value":"2026-01-01T00:00:07Z"}'
            )
    assert events.mark("events") == at(7)


def test_r02_a_retried_task_commits_what_the_attempt_that_succeeded_read(spark: SparkSession, events: Place) -> None:
    events.api.fail("events", page=2)
    with checkpointed(spark):
        out = written(events.load(spark, "events"), events.folder / "out")
    assert ids(out) == list(range(1, 251))
    assert [r.query.get("cursor") for r in events.api.requested("events")] == [None, "1", "2", None, "1", "2"]
    assert events.mark("events") == at(250)


def test_r02_a_task_that_failed_after_its_read_is_no_proof(spark: SparkSession, events: Place) -> None:
    """The first attempt leaves its receipt and fails; the second one sees more, and is the one that counts."""
    url = f"{events.api.base}/pause-write"
    gate = events.api.hold("pause-write", 0)

    def fragile(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        yield from batches
        if TaskContext.get().attemptNumber() == 0:
            urlopen(url).read()
            raise OSError("lost")

    def more() -> None:
        gate.wait()
        events.api.tables["events"] += records(251, 260)
        gate.open()

    with checkpointed(spark):
        df = events.load(spark, "events")
        helper = threading.Thread(target=more)
        helper.start()
        out = written(df.mapInArrow(fragile, df.schema), events.folder / "out")
        helper.join()
        assert len(events.receipts()) == 2
    assert ids(out) == list(range(1, 261))
    assert events.mark("events") == at(260)


def test_r02_an_executor_that_is_killed_in_the_middle(spark: SparkSession, cluster: Cluster, events: Place) -> None:
    gate = events.api.hold("events", page=1)

    def kill() -> None:
        gate.wait()
        cluster.kill_executor(executor_of_the_running_task(spark))
        gate.open()

    killer = threading.Thread(target=kill)
    with checkpointed(spark):
        df = events.load(spark, "events")
        killer.start()
        out = written(df, events.folder / "out")
        killer.join()
    assert ids(out) == list(range(1, 251))
    assert events.mark("events") == at(250)
    assert [r.query.get("cursor") for r in events.api.requested("events")].count(None) == 2


def test_r02_of_two_speculative_attempts_the_winner_counts(spark: SparkSession, events: Place) -> None:
    """The copy reads later rows and leaves its receipt, but loses: its rows were thrown away."""
    events.api.tables["quick"] = records(1, 4)
    events.table("quick")
    url = f"{events.api.base}/pause-write"
    first, copy = events.api.hold("pause-write", 0), events.api.hold("pause-write", 1)

    def slow(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        taken = list(batches)
        if sum(batch.num_rows for batch in taken) >= 250:
            urlopen(url).read()
        yield from taken

    def script() -> None:
        first.wait()
        events.api.tables["events"] += records(251, 260)
        copy.wait()
        first.open()

    with checkpointed(spark):
        both = events.load(spark, "events").union(events.load(spark, "quick"))
        helper = threading.Thread(target=script)
        helper.start()
        out = written(both.mapInArrow(slow, both.schema), events.folder / "out")
        helper.join()
        assert len(events.receipts()) == 2
        copy.open()
    assert out.count() == 254
    assert events.mark("events") == at(250)


def test_r02_a_read_whose_output_was_lost_is_made_again_and_the_first_one_counts(
    spark: SparkSession, cluster: Cluster, events: Place
) -> None:
    """Tasks that had fetched the first output saw no later rows: only what the first read saw is surely delivered."""
    events.api.tables["others"] = records(1, 260)
    events.table("others")
    gate = events.api.hold("others", page=0)

    def lose() -> None:
        gate.wait()
        eventually(lambda: any(rows == 250 for _, _, rows in tasks_of(spark)))
        cluster.kill_executor(next(executor for executor, _, rows in tasks_of(spark) if rows == 250))
        events.api.tables["events"] += records(251, 260)
        gate.open()

    settings = {"spark.sql.autoBroadcastJoinThreshold": "-1", "spark.sql.adaptive.autoBroadcastJoinThreshold": "-1"}
    for key, value in settings.items():
        spark.conf.set(key, value)
    helper = threading.Thread(target=lose)
    try:
        with checkpointed(spark):
            both = events.load(spark, "events").join(events.load(spark, "others").select("id"), "id")
            helper.start()
            out = written(both, events.folder / "out")
            helper.join()
            assert len(events.receipts()) == 2
    finally:
        for key in settings:
            spark.conf.unset(key)
    assert out.count() == 260
    assert events.mark("events") == at(250)


def tasks_of(spark: SparkSession) -> list[tuple[str, str, int]]:
    """Executor, state and rows taken of the tasks of the jobs that are known, the last job first."""
    store = spark.sparkContext._jsc.sc().statusStore()
    tracker = spark.sparkContext.statusTracker()
    found = []
    for job in sorted(tracker.getJobIdsForGroup(None), reverse=True)[:2]:
        for stage in tracker.getJobInfo(job).stageIds:
            tasks = store.taskList(stage, 0, 10)
            for index in range(tasks.size()):
                task = tasks.apply(index)
                metrics = task.taskMetrics()
                rows = metrics.get().inputMetrics().recordsRead() if metrics.isDefined() else 0
                found.append((task.executorId(), task.status(), rows))
    return found


def executor_of_the_running_task(spark: SparkSession) -> str:
    """The executor of the one task that runs."""
    eventually(lambda: any(state == "RUNNING" for _, state, _ in tasks_of(spark)))
    return next(executor for executor, state, _ in tasks_of(spark) if state == "RUNNING")
