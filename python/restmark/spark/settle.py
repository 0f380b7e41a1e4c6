"""Commits what queries took whole: at the end of a block, or as a session's writes succeed (R1, R2)."""

from __future__ import annotations

import json
import logging
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import SparkSession

from .._errors import RestmarkError, ScanError, StoreError
from .._restmark import Plan
from .note import Note, Receipt
from .proof import Evidence, Verdict, objection
from .source import RestmarkSource
from .status import Status

log = logging.getLogger("restmark.spark")


@dataclass(frozen=True)
class Outcome:
    """What became of a plan of a table: where its checkpoint stands now, or why it stayed."""

    table: str
    plan: str
    position: dict[str, Any] | None
    reason: str | None


@contextmanager
def checkpointed(spark: SparkSession) -> Iterator[list[Outcome]]:
    """Commits the checkpoints of the tables that were loaded and read in the block, when it ends without an exception.

    Nothing moves if a query or job of the application failed meanwhile, whoever caught its exception, or still runs, or
    if a write had a LIMIT. What became of each plan is in the list that the block is given, once it has ended.
    """
    ledger = Ledger(spark)
    if spark.sparkContext.getLocalProperty("spark.sql.execution.id") is not None:
        raise RuntimeError(
            "restmark: a checkpointed block within a query, as in foreachBatch, never commits: the query around it has "
            "not succeeded when the block ends"
        )
    outcomes: list[Outcome] = []
    with ledger.registered(spark):
        began = ledger.status.mark()
        yield outcomes
        ledger.settle_block(objection(ledger.status, began), outcomes)


def register(spark: SparkSession) -> None:
    """Registers the data source, and commits a table's checkpoint whenever a write that took all of it succeeds."""
    if spark in _blocks:
        raise RuntimeError("restmark: register the session before its checkpointed block, or after it")
    if spark not in _sessions:
        _sessions[spark] = Session(spark)


def settle(spark: SparkSession) -> list[Outcome]:
    """Waits until what this session's writes took is committed; what became of each plan since the last call."""
    if spark not in _sessions:
        raise ValueError("restmark.spark.register(spark) comes first")
    return _sessions[spark].settle()


class Ledger:
    """The plans that wait for a commit."""

    def __init__(self, spark: SparkSession) -> None:
        if not hasattr(spark, "_jsparkSession"):
            raise RuntimeError(
                "restmark: a Spark Connect session does not say which tasks succeeded, so nothing can be committed "
                "from it: run this in a classic session, on the driver"
            )
        self.status = Status(spark)
        self.directory = tempfile.TemporaryDirectory(prefix="restmark-plans-", ignore_cleanup_errors=True)

    def data_source(self) -> type[RestmarkSource]:
        """A data source that leaves its plans here. A class made here travels by value, with its directory."""
        directory = self.directory.name

        class Settled(RestmarkSource):
            notes = directory

        return Settled

    @contextmanager
    def registered(self, spark: SparkSession) -> Iterator[None]:
        """Takes the plans of what is loaded meanwhile; in the end whatever is left is dropped."""
        if spark in _blocks:
            raise RuntimeError("restmark: a session has one checkpointed block at a time")
        _blocks.add(spark)
        session = _sessions.get(spark)
        install(spark, self.data_source())
        try:
            yield
        finally:
            _blocks.discard(spark)
            for note in self.notes():
                self.drop(note)
            self.directory.cleanup()
            install(spark, session.ledger.data_source() if session else RestmarkSource)

    def notes(self) -> list[Note]:
        return Note.all(self.directory.name)

    def settle_block(self, objection: str, outcomes: list[Outcome]) -> None:
        """Commits one plan of each table that a query took whole, as far as the least of its reads.

        A commit that fails is raised at the end, when the others are done.
        """
        notes = self.notes()
        evidence, unread = self.evidence(notes)
        verdicts = {note: judged(note, evidence, unread) for note in notes}
        committed: list[Note] = []
        errors = list(unread.values())
        for note in notes:
            reads = [verdict for other, verdict in verdicts.items() if other.reads_as(note) and not verdict.reason]
            reason = objection or verdicts[note].reason
            if not reason and any(other.reads_as(note) for other in committed):
                reason = "an earlier read of it in this block was committed, and its rows may reach further"
            if reason:
                outcomes.append(stays(note, reason))
                continue
            try:
                outcomes.append(commit(note, reads))
                committed.append(note)
            except Undecided as error:
                outcomes.append(stays(note, str(error)))
            except RestmarkError as error:
                outcomes.append(stays(note, str(error)))
                errors.append(error)
        if errors:
            raise errors[0]

    def settle_writes(self) -> tuple[list[Outcome], list[Outcome]]:
        """Commits each plan that a write took whole. What is done, and what still waits."""
        done: list[Outcome] = []
        waiting: dict[Note, Outcome] = {}
        notes = self.notes()
        evidence, unread = self.evidence(notes)
        for error in unread.values():
            log.warning("nothing of a plan can be committed: %s", error)
        for note in notes:
            verdict = judged(note, evidence, unread, only_writes=True)
            if verdict.reason:
                waiting[note] = Outcome(note.table, note.id, None, verdict.reason)
                continue
            try:
                done.append(commit(note, [verdict]))
            except RestmarkError as error:
                done.append(stays(note, str(error)))
            else:
                # The notes come in the order of their plans.
                for older in [other for other in waiting if other.reads_as(note)]:
                    del waiting[older]
                    self.drop(older)
            self.drop(note)
        return done, list(waiting.values())

    def evidence(self, notes: list[Note]) -> tuple[Evidence, dict[Note, RestmarkError]]:
        """All receipts of these plans, once Spark has told its own store how their queries ended.

        A store that does not answer, or a receipt that nobody understands, is its own plan's trouble.
        """
        receipts: list[Receipt] = []
        unread: dict[Note, RestmarkError] = {}
        for note in notes:
            try:
                receipts += note.receipts()
            except RestmarkError as error:
                unread[note] = error
            except (ValueError, KeyError, TypeError) as error:
                unread[note] = StoreError(f"a receipt of {note.table} cannot be read: {error!r}")
        evidence = Evidence(self.status, receipts)
        self.status.wait_for(evidence.queries())
        return evidence, unread

    def drop(self, note: Note) -> None:
        """Nobody commits this plan any more, so its receipts go too."""
        note.path(self.directory.name).unlink(missing_ok=True)
        try:
            note.source().forget_receipts(Plan.of(note.plan))
        except RestmarkError as error:
            log.warning("%s: receipts of plan %s are left in the store: %s", note.table, note.id, error)


class Session:
    """A session's listener: a query that succeeded wakes a thread that commits."""

    def __init__(self, spark: SparkSession) -> None:
        self.ledger = Ledger(spark)
        self._done: list[Outcome] = []
        self._lock = threading.Lock()
        self._wake = threading.Event()
        ensure_callback_server_started(spark.sparkContext._gateway)  # type: ignore[no-untyped-call]
        spark._jsparkSession.listenerManager().register(self)
        install(spark, self.ledger.data_source())
        threading.Thread(target=self._run, name="restmark-settle", daemon=True).start()

    def onSuccess(self, name: str, query: Any, nanoseconds: int) -> None:
        # Spark's own thread: others wait behind it.
        self._wake.set()

    def onFailure(self, name: str, query: Any, error: Any) -> None:
        """A query that failed commits nothing."""

    class Java:
        implements = ["org.apache.spark.sql.util.QueryExecutionListener"]

    def settle(self) -> list[Outcome]:
        waiting = self._settle()
        with self._lock:
            done, self._done = self._done, []
        return done + waiting

    def _settle(self) -> list[Outcome]:
        with self._lock:
            done, waiting = self.ledger.settle_writes()
            self._done += done
        return waiting

    def _run(self) -> None:
        while self._wake.wait():
            self._wake.clear()
            try:
                self._settle()
            except Exception as error:  # The thread lives as long as the session.
                log.warning("nothing could be committed: %s", error)


_sessions: WeakKeyDictionary[SparkSession, Session] = WeakKeyDictionary()
_blocks: WeakSet[SparkSession] = WeakSet()


def install(spark: SparkSession, data_source: type[RestmarkSource]) -> None:
    """Registers a data source in place of the one that the session had."""
    # Spark refuses a name that the active session has, when that is another one.
    SparkSession._get_j_spark_session_class(spark._jvm).setActiveSession(spark._jsparkSession)
    spark.dataSource.register(data_source)


class Undecided(RestmarkError):
    """Of the reads that may have been stored none is the least."""


def judged(note: Note, evidence: Evidence, unread: dict[Note, RestmarkError], only_writes: bool = False) -> Verdict:
    """What is proven of a plan."""
    if note in unread:
        return Verdict(reason=str(unread[note]))
    return evidence.judge(note.id, Plan.of(note.plan).partitions, only_writes)


def commit(note: Note, reads: list[Verdict]) -> Outcome:
    """Commits a plan as far as the least of the reads, which may be those of other plans of the same table."""
    plan = Plan.of(note.plan)
    partitions = zip(*(read.receipts for read in reads), strict=True)
    receipts = [least(plan, [text for texts in partition for text in texts]) for partition in partitions]
    return Outcome(note.table, note.id, note.source().commit(plan, receipts), None)


def least(plan: Plan, texts: list[str]) -> str:
    """Of several reads of a partition the one that reached least far: whoever stored rows may have had them from it."""
    if len(texts) == 1:
        return texts[0]
    try:
        # A receipt of another plan of the table can only hold this one back.
        return plan.least([json.dumps(json.loads(text) | {"plan": plan.id}) for text in texts])
    except ScanError as error:
        raise Undecided(str(error)) from error


def stays(note: Note, reason: str) -> Outcome:
    log.warning("%s: the checkpoint stays where it was: %s", note.table, reason)
    return Outcome(note.table, note.id, None, reason)
