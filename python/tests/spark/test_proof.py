"""What counts as a proof, case by case, against a status store that says what the case needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from restmark.spark.note import Receipt
from restmark.spark.proof import WRITE as WRITING
from restmark.spark.proof import Evidence, objection
from restmark.spark.status import Execution, Mark, Status, Task

WRITE = ("Execute InsertIntoHadoopFsRelationCommand", "WriteFiles", "BatchScan restmark")


class Told:
    """A status store that was told so much."""

    def __init__(self, executions: list[Execution], tasks: Sequence[Task] = (), nodes: tuple[str, ...] = WRITE,
                 root_nodes: tuple[str, ...] | None = None) -> None:
        self.execution = {execution.id: execution for execution in executions}.get
        self._executions = executions
        self._tasks = {task.id: task for task in tasks}
        self._nodes = list(nodes)
        self._root_nodes = list(nodes if root_nodes is None else root_nodes)
        self.forgot: set[str] = set()
        self.job: str | None = None

    def nodes(self, number: int) -> list[str]:
        return self._root_nodes if number == 0 else self._nodes

    def since(self, mark: Mark) -> list[int]:
        return [execution.id for execution in self._executions]

    def forgot_queries(self, since: Mark) -> bool:
        return "queries" in self.forgot

    def forgot_jobs(self, since: Mark) -> bool:
        return "jobs" in self.forgot

    def unproven_job(self, since: Mark) -> str | None:
        return self.job

    def task(self, stage: int, number: int) -> Task | None:
        return self._tasks.get(number)


def query(number: int = 1, root: int | None = None, state: str = "COMPLETED", error: str | None = "") -> Execution:
    return Execution(number, number if root is None else root, state, error, "save at job.py:7")


def receipt(task: int = 10, rows: int = 5, text: str = "proof", partition: str = "all", execution: int | None = 1,
            plan: str = "p") -> Receipt:
    return Receipt(text, partition, plan, execution, 0, task, rows)


def judged(receipts: list[Receipt], tasks: list[Task], *executions: Execution, only_writes: bool = False,
           nodes: tuple[str, ...] = WRITE) -> tuple:
    evidence = Evidence(Told(list(executions) or [query()], tasks, nodes), receipts)  # type: ignore[arg-type]
    verdict = evidence.judge("p", ["all"], only_writes)
    return verdict.receipts, verdict.reason


def test_r01_a_task_that_took_what_it_was_handed_is_a_proof() -> None:
    assert judged([receipt()], [Task(10, True, 5)]) == ((("proof",),), "")


@pytest.mark.parametrize("taken", [4, 6])
def test_r01_other_rows_than_were_handed_are_none(taken: int) -> None:
    receipts, reason = judged([receipt()], [Task(10, True, taken)])
    assert receipts == ()
    assert reason == (
        f"query 1 took {taken} rows in a task that was handed 5: the task read other inputs too, or stopped early"
    )


def test_r01_a_task_that_read_two_tables_took_both() -> None:
    assert judged([receipt(), receipt(rows=3, plan="other")], [Task(10, True, 8)]) == ((("proof",),), "")


def test_r01_all_reads_that_succeeded_are_told_of() -> None:
    """A stage that ran again, its output being lost: the least of its reads is committed."""
    read = [receipt(task=12, rows=6, text="later"), receipt(task=10, text="first"), receipt(task=11, text="lost")]
    tasks = [Task(10, True, 5), Task(11, False, 5), Task(12, True, 6)]
    assert judged(read, tasks) == ((("first", "later"),), "")


def test_r02_a_losing_attempt_is_none() -> None:
    _, reason = judged([receipt()], [Task(10, False, 5)])
    assert reason == "query 1 has no task that succeeded in reading all to its end"


def test_r01_every_partition_is_needed() -> None:
    evidence = Evidence(Told([query()], [Task(10, True, 5)]), [receipt()])  # type: ignore[arg-type]
    reason = evidence.judge("p", ["all", "more"]).reason
    assert reason == "query 1 has no task that succeeded in reading more to its end"


@pytest.mark.parametrize(
    ("execution", "reason"),
    [
        (query(state="RUNNING"), "is still running"),
        (query(state="FAILED", error="disk full"), "did not succeed: disk full"),
        (query(error=None), "did not succeed: Spark does not say how (save at job.py:7) ended"),
    ],
)
def test_r02_only_a_query_that_succeeded_whole_counts(execution: Execution, reason: str) -> None:
    assert judged([receipt()], [Task(10, True, 5)], execution) == ((), f"query 1 {reason}")


@pytest.mark.parametrize("limit", ["CollectLimit", "GlobalLimit", "TakeOrderedAndProject"])
def test_r01_a_limit_is_none_however_much_it_took(limit: str) -> None:
    assert judged([receipt()], [Task(10, True, 5)], nodes=(limit, *WRITE)) == ((), "query 1 has a LIMIT")


def test_r02_the_query_around_it_must_have_succeeded_too() -> None:
    inner, outer = query(root=0), query(0, state="FAILED", error="no such table")
    assert judged([receipt()], [Task(10, True, 5)], inner, outer) == ((), "query 1 did not succeed: no such table")


def test_r02_what_spark_has_forgotten_proves_nothing() -> None:
    assert "spark.sql.ui.retainedExecutions" in judged([receipt(execution=9)], [Task(10, True, 5)])[1]
    assert "spark.ui.retainedTasks" in judged([receipt()], [])[1]


def test_r02_reads_outside_of_a_query_prove_nothing() -> None:
    assert judged([receipt(execution=None)], [Task(10, True, 5)])[1].startswith("it was read outside of a query")


def test_r01_no_receipt_no_proof() -> None:
    assert judged([], []) == ((), "no query read it to its end")


def test_r02_of_a_listening_session_only_writes_count() -> None:
    look = ("HashAggregate", "BatchScan restmark")
    assert judged([receipt()], [Task(10, True, 5)], nodes=look, only_writes=True) == (
        (), "query 1 (save at job.py:7) is no write")
    assert judged([receipt()], [Task(10, True, 5)], only_writes=True) == ((("proof",),), "")


@pytest.mark.parametrize("node", [
    "Execute InsertIntoHadoopFsRelationCommand", "Execute InsertIntoHiveTable", "Execute SaveIntoDataSourceCommand",
    "Execute CreateDataSourceTableAsSelectCommand", "Execute CreateHiveTableAsSelectCommand",
    "Execute MergeIntoCommand", "AppendData noop-table", "AppendDataExecV1", "OverwriteByExpression t",
    "OverwriteByExpressionExecV1", "OverwritePartitionsDynamic t", "CreateTableAsSelect", "AtomicCreateTableAsSelect",
    "ReplaceTableAsSelect", "AtomicReplaceTableAsSelect", "ReplaceData t", "WriteDelta t", "WriteToDataSourceV2",
])
def test_r02_what_surely_writes(node: str) -> None:
    assert WRITING.match(node)


@pytest.mark.parametrize("node", [
    "Execute AnalyzeColumnCommand", "Execute AnalyzeTableCommand", "Execute CreateViewCommand", "AppendColumns",
    "AppendColumnsWithObject", "CacheTableAsSelect", "CreateTable", "ReplaceTable", "CollectMetrics",
])
def test_r02_what_does_not(node: str) -> None:
    assert not WRITING.match(node)


def test_r01_a_tail_is_a_look() -> None:
    look = replace(query(), is_tail=True)
    assert judged([receipt()], [Task(10, True, 5)], look) == ((), "query 1 is a look: it took the last rows")


def test_r01_the_reads_of_all_queries_count_but_for_looks_and_failures() -> None:
    """Which of them the stored rows came from is not known."""
    read = [receipt(10 + n, text=f"of {n}", execution=n) for n in range(1, 5)]
    executions = [query(1), query(2), query(3, state="FAILED", error="lost"), replace(query(4), is_tail=True)]
    tasks = [Task(10 + n, True, 5) for n in range(1, 5)]
    assert judged(read, tasks, *executions) == ((("of 1", "of 2"),), "")


def test_r01_a_read_that_proves_nothing_may_still_be_the_one_whose_rows_were_stored() -> None:
    read = [receipt(10, text="count", execution=1), receipt(11, rows=3, text="union", execution=2)]
    assert judged(read, [Task(10, True, 5), Task(11, True, 9)], query(1), query(2)) == ((("count", "union"),), "")


def test_r02_of_a_listening_session_a_longer_look_does_not_count() -> None:
    read = [receipt(10, text="written", execution=1), receipt(11, text="counted", execution=0)]
    told = Told([query(1), query(0)], [Task(10, True, 5), Task(11, True, 5)], root_nodes=("HashAggregate",))
    evidence = Evidence(told, read)  # type: ignore[arg-type]
    assert evidence.judge("p", ["all"], only_writes=True).receipts == (("written",),)


def objected(told: Told) -> str:
    return objection(told, Mark(-1, -1))  # type: ignore[arg-type]


def test_r02_all_is_well_when_everything_succeeded() -> None:
    assert objected(Told([query()])) == ""


@pytest.mark.parametrize(
    ("execution", "reason"),
    [
        (query(state="RUNNING", error=None), "is still running"),
        (query(error=None), "Spark does not say how it ended"),
        (query(state="FAILED", error="disk full"), "failed: disk full"),
    ],
)
def test_r02_a_query_that_did_not_succeed_objects(execution: Execution, reason: str) -> None:
    assert reason in objected(Told([execution]))


def test_r01_a_look_whose_end_spark_does_not_tell_is_a_look() -> None:
    assert objected(Told([query(error=None)], nodes=("BatchScan restmark",))) == ""


def test_r02_a_job_of_no_query_objects() -> None:
    told = Told([query()])
    told.job = "7 (foreach at job.py:9) is still running"
    assert objected(told) == "job 7 (foreach at job.py:9) is still running"


@pytest.mark.parametrize("what", ["queries", "jobs"])
def test_r02_what_spark_has_forgotten_objects(what: str) -> None:
    told = Told([query()])
    told.forgot = {what}
    assert objected(told).startswith(f"Spark has forgotten {what}")


@pytest.mark.parametrize("scan", ["BatchScan restmark", "BatchScan RestMark"])
def test_r01_a_limit_objects_where_the_write_is_in_the_query_around_it(scan: str) -> None:
    read = ("LocalLimit", scan)
    told = Told([query(1, root=0), query(0)], nodes=read, root_nodes=("Execute SaveIntoDataSourceCommand",))
    assert "wrote a part of a table" in objected(told)
    assert objected(Told([query()], nodes=read)) == ""


class Remembering(Status):
    """A status store that remembers these queries, or jobs, and at most so many."""

    def __init__(self, known: list[int], retained: int) -> None:
        self._settings = {"spark.sql.ui.retainedExecutions": retained, "spark.ui.retainedJobs": retained}
        self._known = known

    def _known_queries(self) -> list[int]:
        return self._known

    def _known_jobs(self) -> list[int]:
        return self._known


@pytest.mark.parametrize(
    ("known", "mark", "forgot"),
    [
        ([5, 6, 7], Mark(4, 0, 4), False),
        ([6, 7, 8], Mark(4, 0, 4), True),
        # A query that ended late outlives those that ended before it.
        ([5, 7, 8], Mark(4, 0, 4), True),
        # One is known that had ended before: Spark would have forgotten it first.
        ([4, 6, 7], Mark(4, 0, 4), False),
        # A query that was never planned, a new session of an old process: a number is missing, the store is not full.
        ([4, 6], Mark(4, 0, 4), False),
        ([31, 32], Mark(-1, -1), False),
        ([], Mark(-1, -1), False),
    ],
)
def test_r02_queries_are_forgotten_only_where_the_store_is_full(known: list[int], mark: Mark, forgot: bool) -> None:
    assert Remembering(known, retained=3).forgot_queries(mark) is forgot


@pytest.mark.parametrize(
    ("known", "forgot"),
    [
        ([3, 4, *range(6, 24)], True),
        (list(range(12, 30)), True),
        (list(range(4, 24)), False),
        ([5, 7], False),
        ([], False),
    ],
)
def test_r02_jobs_are_forgotten_a_tenth_at_a_time(known: list[int], forgot: bool) -> None:
    assert Remembering(known, retained=20).forgot_jobs(Mark(0, 4)) is forgot
