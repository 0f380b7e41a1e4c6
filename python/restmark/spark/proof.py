"""Whether a query took the whole of a table: the receipts of its tasks against Spark's own record of them (R1, R2)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from .note import Receipt
from .status import Execution, Mark, Status

SCAN = "BatchScan restmark"
LIMITS = {"CollectLimit", "CollectTail", "GlobalLimit", "LocalLimit", "TakeOrderedAndProject"}
WRITES = (
    "Execute ", "Append", "Overwrite", "AtomicCreate", "AtomicReplace", "CreateTableAsSelect", "ReplaceTableAsSelect",
    "ReplaceData", "WriteDelta", "WriteToDataSource", "MergeRows",
)


@dataclass(frozen=True)
class Verdict:
    """The receipts that prove a plan, or why there are none."""

    receipts: tuple[str, ...] = ()
    reason: str = ""


class Evidence:
    """All receipts of some plans, of which several may be read by one task."""

    def __init__(self, status: Status, receipts: Iterable[Receipt]) -> None:
        self.status = status
        self.receipts = tuple(receipts)

    def queries(self, plan: str | None = None) -> list[int]:
        """The queries that read a plan (or any), the first one first."""
        read = (r.execution for r in self.receipts if plan in (None, r.plan) and r.execution is not None)
        return sorted(set(read))

    def judge(self, plan: str, partitions: list[str], only_writes: bool = False) -> Verdict:
        """The first query that took every partition whole. Nothing counts that is not certain."""
        reasons = []
        for query in self.queries(plan):
            verdict = self._query(query, plan, partitions, only_writes)
            if verdict.receipts:
                return verdict
            reasons.append(f"query {query} {verdict.reason}")
        if any(r.plan == plan and r.execution is None for r in self.receipts):
            reasons.append("it was read outside of a query, as an RDD, of which Spark does not say how it ended")
        return Verdict(reason="; ".join(reasons) or "no query read it to its end")

    def _query(self, number: int, plan: str, partitions: list[str], only_writes: bool) -> Verdict:
        execution = self.status.execution(number)
        root = self.status.execution(execution.root) if execution else None
        if execution is None or root is None:
            return Verdict(reason="is forgotten by Spark (spark.sql.ui.retainedExecutions)")
        if reason := _refused(execution) or _refused(root):
            return Verdict(reason=reason)
        nodes = [*self.status.nodes(execution.id), *self.status.nodes(root.id)]
        if _is_limited(nodes):
            return Verdict(reason="has a LIMIT")
        if only_writes and not _is_write(nodes):
            return Verdict(reason=f"({execution.description}) is no write")
        found = [self._partition(number, plan, partition) for partition in partitions]
        lacking = [verdict for verdict in found if not verdict.receipts]
        return lacking[0] if lacking else Verdict(tuple(text for verdict in found for text in verdict.receipts))

    def _partition(self, query: int, plan: str, partition: str) -> Verdict:
        """The receipt of the first task attempt that succeeded: a later read may have seen more than was kept."""
        left = [r for r in self.receipts if (r.execution, r.plan, r.partition) == (query, plan, partition)]
        winners = []
        for receipt in left:
            task = self.status.task(receipt.stage, receipt.task)
            if task is None:
                return Verdict(reason="had a task that Spark has forgotten (spark.ui.retainedTasks)")
            if not task.has_succeeded:
                continue
            handed = sum(r.rows for r in self.receipts if r.task == task.id)
            if task.rows != handed:
                return Verdict(reason=f"took {task.rows} rows in a task that was handed {handed}")
            winners.append(receipt)
        if not winners:
            return Verdict(reason=f"has no task that succeeded in reading {partition} to its end")
        first = min(winners, key=lambda receipt: (receipt.task, receipt.rows))
        return Verdict((first.text,))


def _refused(execution: Execution) -> str:
    if not execution.has_ended:
        return "is still running"
    if not execution.has_succeeded:
        return f"did not succeed: {execution.error or f'({execution.description}) ended before its end'}"
    return ""


def objection(status: Status, since: Mark) -> str:
    """Why nothing of a block may move, whatever its other queries took; empty where all is well."""
    for number in status.since(since):
        execution = status.execution(number)
        if execution is None:
            return f"query {number} is forgotten by Spark (spark.sql.ui.retainedExecutions)"
        if execution.state == "FAILED":
            return f"query {number} ({execution.description}) failed: {execution.error}"
        nodes = status.nodes(number)
        if SCAN in nodes and _is_limited(nodes) and _is_write(nodes):
            return f"query {number} ({execution.description}) wrote a part of a table: it has a LIMIT"
    job = status.failed_job(since)
    return f"job {job} failed" if job else ""


def _is_limited(nodes: list[str]) -> bool:
    return not LIMITS.isdisjoint(nodes)


def _is_write(nodes: list[str]) -> bool:
    return any(node.startswith(WRITES) for node in nodes)
