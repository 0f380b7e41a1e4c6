"""What Spark itself says became of queries and tasks: its status store, which it keeps without a web interface too."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

# Spark tells the ends of jobs and queries to the store in passing, a little after the query returned.
PATIENCE = 10.0


@dataclass(frozen=True)
class Execution:
    """A query, as far as Spark's own record of it goes."""

    id: int
    root: int
    state: str
    # What went wrong; empty after a success, `None` where Spark does not know how it ended.
    error: str | None
    description: str

    @property
    def has_ended(self) -> bool:
        return self.state != "RUNNING"

    @property
    def has_succeeded(self) -> bool:
        return self.state == "COMPLETED" and self.error == ""


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
        )

    def nodes(self, number: int) -> list[str]:
        """The names of what a query's plan is made of."""
        return [node.name() for node in _each(self._queries.planGraph(number).allNodes())]

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

    def since(self, mark: Mark) -> range:
        """The queries since then, once they have ended or a while has passed."""
        queries = range(mark.query + 1, self.mark().query + 1)
        self.wait_for(queries)
        return queries

    def failed_job(self, since: Mark) -> str | None:
        """A job that failed outside of any query since then, as those of an RDD do."""
        for job in _each(self._tasks.jobsList(None)):
            if job.jobId() > since.job and job.status().name() == "FAILED" and not self._has_query(job.jobId()):
                return f"{job.jobId()} ({job.name()})"
        return None

    def wait_for(self, queries: Iterable[int]) -> None:
        """Waits until the store says of these queries how they ended, or for a while."""
        deadline = time.monotonic() + PATIENCE
        self._drain()
        while any(execution and not execution.has_ended for execution in map(self.execution, queries)):
            if time.monotonic() > deadline:
                return
            time.sleep(0.05)
            self._drain()

    def _has_query(self, job: int) -> bool:
        return bool(self._tasks.jobWithAssociatedSql(job)._2().isDefined())

    def _drain(self) -> None:
        # A busy application's bus is never empty; who waits looks again.
        with suppress(Py4JJavaError):
            self._context.listenerBus().waitUntilEmpty(1000)


def _each(sequence: Any) -> Iterator[Any]:
    """The elements of a Scala sequence."""
    iterator = sequence.iterator()
    while iterator.hasNext():
        yield iterator.next()
