"""What Spark itself says became of queries and tasks: its status store, which it keeps without a web interface too."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

# Spark tells the ends of jobs and queries to the store in passing, a little after the query returned.
PATIENCE = 10.0
LIMITS = {"CollectLimit", "CollectTail", "GlobalLimit", "LocalLimit", "TakeOrderedAndProject"}
V2_WRITES = ("Append", "Overwrite", "AtomicCreate", "AtomicReplace", "CreateTableAsSelect", "ReplaceTableAsSelect",
             "ReplaceData", "WriteDelta", "WriteToDataSource", "MergeRows")


@dataclass(frozen=True)
class Execution:
    """A query, as far as Spark's own record of it goes."""

    id: int
    root: int
    state: str
    # What went wrong; empty after a success, `None` where Spark does not know how it ended.
    error: str | None
    description: str
    nodes: tuple[str, ...]

    @property
    def has_ended(self) -> bool:
        return self.state != "RUNNING"

    @property
    def has_succeeded(self) -> bool:
        return self.state == "COMPLETED" and self.error == ""

    @property
    def is_limited(self) -> bool:
        return not LIMITS.isdisjoint(self.nodes)

    @property
    def is_write(self) -> bool:
        return any(node.startswith(("Execute ", *V2_WRITES)) for node in self.nodes)


@dataclass(frozen=True)
class Task:
    """A task attempt and how many rows it took from its inputs."""

    id: int
    has_succeeded: bool
    rows: int


@dataclass(frozen=True)
class Mark:
    """The last query and the last job so far."""

    query: int
    job: int


class Status:
    """The status store of a session."""

    def __init__(self, spark: SparkSession) -> None:
        self._context = spark.sparkContext._jsc.sc()
        self._queries = spark._jsparkSession.sharedState().statusStore()
        self._tasks = self._context.statusStore()

    def execution(self, number: int) -> Execution | None:
        """A query; `None` of one that Spark has forgotten, or that never was."""
        found = self._queries.execution(number)
        if not found.isDefined():
            return None
        data = found.get()
        error = data.errorMessage()
        return Execution(
            id=data.executionId(),
            root=data.rootExecutionId(),
            state=data.executionStatus(),
            error=error.get() if error.isDefined() else None,
            description=data.description(),
            nodes=tuple(node.name() for node in _each(self._queries.planGraph(number).allNodes())),
        )

    def task(self, stage: int, number: int) -> Task | None:
        """A task attempt of whatever attempt of its stage."""
        for attempt in count():
            tasks = self._tasks.taskList(stage, attempt, 2**31 - 1)
            if tasks.isEmpty():
                return None
            for data in _each(tasks):
                if data.taskId() == number:
                    metrics = data.taskMetrics()
                    rows = metrics.get().inputMetrics().recordsRead() if metrics.isDefined() else 0
                    return Task(number, data.status() == "SUCCESS", rows)
        return None

    def mark(self) -> Mark:
        """How far the application has come."""
        self._drain()
        queries = (execution.executionId() for execution in _each(self._queries.executionsList()))
        jobs = (job.jobId() for job in _each(self._tasks.jobsList(None)))
        return Mark(max(queries, default=-1), max(jobs, default=-1))

    def failure(self, since: Mark) -> str:
        """The first query or job since then that failed, or may have; empty where all is well."""
        queries = range(since.query + 1, self.mark().query + 1)
        self.wait_for(queries)
        for number in queries:
            execution = self.execution(number)
            if execution is None:
                return f"query {number} is forgotten by Spark (spark.sql.ui.retainedExecutions)"
            if execution.state == "FAILED":
                return f"query {number} ({execution.description}) failed: {execution.error}"
        for job in _each(self._tasks.jobsList(None)):
            if job.jobId() > since.job and job.status().name() == "FAILED":
                return f"job {job.jobId()} failed"
        return ""

    def wait_for(self, queries: Iterable[int]) -> None:
        """Waits until the store says of these queries how they ended, or for a while."""
        deadline = time.monotonic() + PATIENCE
        while True:
            self._drain()
            if all(execution is None or execution.has_ended for execution in map(self.execution, queries)):
                return
            if time.monotonic() > deadline:
                return
            time.sleep(0.05)

    def _drain(self) -> None:
        try:
            self._context.listenerBus().waitUntilEmpty(1000)
        except Py4JJavaError:
            # A busy application's bus is never empty; who waits looks again.
            pass


def _each(sequence: Any) -> Iterator[Any]:
    """The elements of a Scala sequence."""
    iterator = sequence.iterator()
    while iterator.hasNext():
        yield iterator.next()
