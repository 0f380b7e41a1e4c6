"""What counts as a proof, case by case, against a status store that says what the case needs."""

from __future__ import annotations

import pytest

from restmark.spark.note import Receipt
from restmark.spark.proof import Evidence
from restmark.spark.status import Execution, Task

WRITE = ("Execute InsertIntoHadoopFsRelationCommand", "WriteFiles", "BatchScan restmark")


class Told:
    """A status store that was told so much."""

    def __init__(self, executions: list[Execution], tasks: list[Task], nodes: tuple[str, ...] = WRITE) -> None:
        self.execution = {execution.id: execution for execution in executions}.get
        self._tasks = {task.id: task for task in tasks}
        self._nodes = list(nodes)

    def nodes(self, number: int) -> list[str]:
        return self._nodes

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
        (query(error=None), "did not succeed: (save at job.py:7) ended before its end"),
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
