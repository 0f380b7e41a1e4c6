"""Whether a query took the whole of a table: the receipts of its tasks against Spark's own record of them (R1, R2)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from .note import Receipt
from .status import Execution, Mark, Status

# In lower case: Spark shows the name of the format as the read wrote it.
SCAN = "batchscan restmark"
LIMITS = {"CollectLimit", "CollectTail", "GlobalLimit", "LocalLimit", "TakeOrderedAndProject"}
# What surely writes; the name of a table may follow.
WRITE = re.compile(
    r"(Execute (InsertInto\w+|SaveIntoDataSourceCommand|Create\w+AsSelectCommand|MergeInto\w*)"
    r"|(AppendData|OverwriteByExpression)(Exec)?(V1)?|OverwritePartitionsDynamic"
    r"|(Atomic)?(Create|Replace)TableAsSelect|ReplaceData|WriteDelta|WriteToDataSourceV2)(?!\w)"
)


@dataclass(frozen=True)
class Verdict:
    """The receipts that prove a plan, for each partition those of all its reads, or why there are none."""

    receipts: tuple[tuple[str, ...], ...] = ()
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
        """Whether a query took every partition whole. Nothing counts that is not certain.

        Which of several reads reached whom is not known, so all that may have reached somebody go into the verdict.
        """
        reasons = []
        counted = []
        is_whole = False
        for query in self.queries(plan):
            reason = self._not_counted(query, only_writes)
            if not reason:
                counted.append(query)
                reason = self._lacks(query, plan, partitions)
                is_whole = is_whole or not reason
            reasons.append(f"query {query} {reason}")
        if is_whole:
            return Verdict(tuple(self._texts(counted, plan, partition) for partition in partitions))
        if any(r.plan == plan and r.execution is None for r in self.receipts):
            reasons.append("it was read outside of a query, as an RDD, of which Spark does not say how it ended")
        return Verdict(reason="; ".join(reasons) or "no query read it to its end")

    def _not_counted(self, number: int, only_writes: bool) -> str:
        """Why what a query read reached nobody, or not for certain; empty where it counts."""
        execution = self.status.execution(number)
        root = self.status.execution(execution.root) if execution else None
        if execution is None or root is None:
            return "is forgotten by Spark (spark.sql.ui.retainedExecutions)"
        if reason := _refused(execution) or _refused(root):
            return reason
        if execution.is_tail:
            return "is a look: it took the last rows"
        nodes = _nodes(self.status, execution)
        if _is_limited(nodes):
            return "has a LIMIT"
        if only_writes and not any(map(WRITE.match, nodes)):
            return f"({execution.description}) is no write"
        return ""

    def _lacks(self, query: int, plan: str, partitions: list[str]) -> str:
        """What a query did not take whole; empty where it took all."""
        reasons = (self._lacks_partition(query, plan, partition) for partition in partitions)
        return next(filter(None, reasons), "")

    def _lacks_partition(self, query: int, plan: str, partition: str) -> str:
        won = False
        for receipt in self._left(query, plan, partition):
            task = self.status.task(receipt.stage, receipt.task)
            if task is None:
                return "had a task that Spark has forgotten (spark.ui.retainedTasks)"
            if not task.has_succeeded:
                continue
            handed = sum(r.rows for r in self.receipts if r.task == task.id)
            if task.rows != handed:
                return (
                    f"took {task.rows} rows in a task that was handed {handed}: "
                    "the task read other inputs too, or stopped early"
                )
            won = True
        return "" if won else f"has no task that succeeded in reading {partition} to its end"

    def _texts(self, queries: list[int], plan: str, partition: str) -> tuple[str, ...]:
        """The receipts of a partition that task attempts of these queries left, but for those that did not succeed."""
        return tuple(r.text for query in queries for r in self._left(query, plan, partition) if not self._has_lost(r))

    def _has_lost(self, receipt: Receipt) -> bool:
        task = self.status.task(receipt.stage, receipt.task)
        return task is not None and not task.has_succeeded

    def _left(self, query: int, plan: str, partition: str) -> list[Receipt]:
        left = [r for r in self.receipts if (r.execution, r.plan, r.partition) == (query, plan, partition)]
        return sorted(left, key=lambda receipt: (receipt.task, receipt.rows))


def _refused(execution: Execution) -> str:
    if not execution.has_ended:
        return "is still running"
    if not execution.has_succeeded:
        return f"did not succeed: {execution.error or f'Spark does not say how ({execution.description}) ended'}"
    return ""


def objection(status: Status, since: Mark) -> str:
    """Why nothing of a block may move, whatever its other queries took; empty where all is well."""
    for number in status.since(since):
        execution = status.execution(number)
        # Forgotten while this looked through them: told below.
        if execution is None:
            continue
        if execution.state == "FAILED":
            return f"query {number} ({execution.description}) failed: {execution.error}"
        if not execution.has_ended:
            return f"query {number} ({execution.description}) is still running"
        nodes = _nodes(status, execution)
        if not _is_scan(nodes) or not _may_write(nodes):
            # Spark does not say how some looks ended, as that of `toLocalIterator`.
            continue
        if not execution.has_succeeded:
            return f"query {number} ({execution.description}) wrote, and Spark does not say how it ended"
        if _is_limited(nodes):
            return f"query {number} ({execution.description}) wrote a part of a table: it has a LIMIT"
    if status.forgot_queries(since):
        return "Spark has forgotten queries of the block (spark.sql.ui.retainedExecutions)"
    if status.forgot_jobs(since):
        return "Spark has forgotten jobs of the block (spark.ui.retainedJobs)"
    job = status.unproven_job(since)
    return f"job {job}" if job else ""


def _nodes(status: Status, execution: Execution) -> list[str]:
    """What a query's plan is made of, with the query's around it: there some sinks have their only node."""
    around = [] if execution.root == execution.id else status.nodes(execution.root)
    return [*status.nodes(execution.id), *around]


def _is_scan(nodes: list[str]) -> bool:
    return any(node.lower().startswith(SCAN) for node in nodes)


def _is_limited(nodes: list[str]) -> bool:
    return not LIMITS.isdisjoint(nodes)


def _may_write(nodes: list[str]) -> bool:
    """Whether it may write: a command that is not known counts, because a write that is overlooked loses rows."""
    return any(node.startswith(("Execute ", "MergeRows")) or WRITE.match(node) for node in nodes)
