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
    is_tail: bool = False

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
    """The last query and the last job so far, and the last query of those that had ended."""

    query: int
    job: int
    ended: int = -1


class Status:
    """The status store of a session."""

    def __init__(self, spark: SparkSession) -> None:
        self._context = spark.sparkContext._jsc.sc()
        self._queries = spark._jsparkSession.sharedState().statusStore()
        self._tasks = self._context.statusStore()
        self._settings = self._context.conf()

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
            # `tail` has no node of its own in a plan. The user may set the description, but not the call.
            is_tail=data.description().startswith("tail at ") or "Dataset.tail" in data.details(),
        )

    def nodes(self, number: int) -> list[str]:
        """The names of what a query's plan is made of; of none that Spark has forgotten."""
        if self.execution(number) is None:
            return []
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
        queries = self._known_queries()
        ended = (number for number in reversed(queries) if (query := self.execution(number)) and query.has_ended)
        return Mark(max(queries, default=-1), max(self._known_jobs(), default=-1), next(ended, -1))

    def since(self, mark: Mark) -> list[int]:
        """The queries since then that Spark remembers, once they and all jobs have ended or a while has passed."""
        self._drain()
        queries = [number for number in self._known_queries() if number > mark.query]
        self.wait_for(queries, mark)
        return queries

    def forgot_queries(self, since: Mark) -> bool:
        """Whether Spark may have forgotten queries since then.

        It forgets in the order in which they ended, so nothing later is lost while one is known that had ended before.
        A number that is missing is no sign by itself: a query that was never planned has one, and a new session of an
        old process does not begin at zero.
        """
        known = self._known_queries()
        later = [number for number in known if number > since.query]
        return (
            len(known) >= int(self._settings.get("spark.sql.ui.retainedExecutions", "1000"))
            and since.ended not in known
            and len(later) < max(known, default=since.query) - since.query
        )

    def forgot_jobs(self, since: Mark) -> bool:
        """Whether Spark may have forgotten jobs since then: it removes the tenth part when it has too many."""
        known = self._known_jobs()
        later = [number for number in known if number > since.job]
        retained = int(self._settings.get("spark.ui.retainedJobs", "1000"))
        return len(known) >= retained - retained // 10 and len(later) < max(known, default=since.job) - since.job

    def unproven_job(self, since: Mark) -> str | None:
        """A job that belongs to no query, as those of an RDD do, and has failed or not ended since then."""
        for job in self._jobs_of_no_query(since, "FAILED"):
            return f"{job.jobId()} ({job.name()}) failed"
        for job in self._jobs_of_no_query(since, "RUNNING"):
            return f"{job.jobId()} ({job.name()}) is still running"
        return None

    def wait_for(self, queries: Iterable[int], jobs_since: Mark | None = None) -> None:
        """Waits until the store says of these queries, and of jobs of none, how they ended, or for a while."""
        deadline = time.monotonic() + PATIENCE
        self._drain()
        while self._is_busy(queries, jobs_since):
            if time.monotonic() > deadline:
                return
            time.sleep(0.05)
            self._drain()

    def _is_busy(self, queries: Iterable[int], jobs_since: Mark | None) -> bool:
        if any(execution and not execution.has_ended for execution in map(self.execution, queries)):
            return True
        return jobs_since is not None and any(self._jobs_of_no_query(jobs_since, "RUNNING"))

    def _known_queries(self) -> list[int]:
        return sorted(execution.executionId() for execution in _each(self._queries.executionsList()))

    def _known_jobs(self) -> list[int]:
        return [job.jobId() for job in _each(self._tasks.jobsList(None))]

    def _jobs_of_no_query(self, since: Mark, state: str) -> Iterator[Any]:
        for job in _each(self._tasks.jobsList(None)):
            if job.jobId() > since.job and job.status().name() == state and not self._has_query(job.jobId()):
                yield job

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
