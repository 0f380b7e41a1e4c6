"""The data source: a table's columns, its batch reader and its stream reader."""

from __future__ import annotations

import json
import logging
import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from .._errors import ConfigError, SchemaError
from .._restmark import Plan
from .note import Note
from .options import Options
from .origin import Origin, batches

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter

    from .stream import StreamReader

log = logging.getLogger("restmark.spark")


class RestmarkSource(DataSource):
    """Tables of a restmark configuration, as `format("restmark")`."""

    # The directory on the driver's host where plans of checkpointed tables are left for whoever commits them.
    notes: ClassVar[str | None] = None
    # Spark keeps the instance that `schema` was asked of, so the configuration is read once.
    _found: Origin | None = None

    @classmethod
    def name(cls) -> str:
        return "restmark"

    def schema(self) -> StructType:
        options = Options.of(self.options)
        return self._origin(options).schema(options.select)

    def reader(self, schema: StructType) -> Reader:
        options = Options.of(self.options)
        options.refuse("batch read", "starting", "max_window")
        origin = self._checked(options, schema)
        if options.full and not origin.is_checkpointed:
            raise ConfigError(f"full: {origin.table} has no checkpoint, it is always read from its beginning")
        reader = PushingReader if options.pushdown else Reader
        return reader(origin, options, schema, self.notes)

    def streamReader(self, schema: StructType) -> StreamReader:
        options = Options.of(self.options)
        options.refuse("stream", "full", "pushdown")
        try:
            from .stream import StreamReader
        except ImportError as error:
            raise ConfigError(f"streams need Spark 4.3 or later: {error}") from None
        return StreamReader(self._checked(options, schema), options, schema)

    def _origin(self, options: Options) -> Origin:
        self._found = self._found or Origin.of(options)
        return self._found

    def _checked(self, options: Options, schema: StructType) -> Origin:
        origin = self._origin(options)
        if not schema.names:
            raise SchemaError("a schema without columns: Spark would count no rows")
        if options.select is not None and set(options.select) != set(schema.names):
            raise SchemaError("select and the schema name different columns")
        origin.check(schema)
        return origin


class Split(InputPartition):
    """A part of a plan, as it travels."""

    def __init__(self, plan: str, leaves_receipts: bool) -> None:
        self.plan = plan
        self.leaves_receipts = leaves_receipts


class Reader(DataSourceReader):
    """Plans a table on the driver's host and reads its parts on the executors."""

    def __init__(self, origin: Origin, options: Options, schema: StructType, notes: str | None) -> None:
        self.origin = origin
        self.options = options
        self.schema = schema
        self.notes = notes
        self.where = [options.where] if options.where else []

    def partitions(self) -> list[Split]:
        plan = self.origin.source().plan(
            self.origin.table,
            select=self.schema.names,
            where=" AND ".join(f"({part})" for part in self.where) or None,
            full=bool(self.options.full),
            distributed=True,
            columns=self.origin.columns,
        )
        for warning in plan.warnings:
            log.warning("%s: %s", self.origin.table, warning)
        settles = self.origin.is_checkpointed and self._announce(plan)
        return [Split(part.text(), settles) for part in plan.split()]

    def _announce(self, plan: Plan) -> bool:
        """Tells whoever commits of the plan; `False`, with a warning, where there is nobody."""
        if self.notes is not None and Note.of(plan, self.origin).leave(self.notes):
            return True
        log.warning(
            "%s has a checkpoint, and nobody commits it: it is read, and its position stays. "
            "Load it within `with restmark.spark.checkpointed(spark)`, or after restmark.spark.register(spark)",
            self.origin.table,
        )
        return False

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        # Spark makes a partition of its own where there is none.
        if not isinstance(partition, Split):
            return
        source, plan = self.origin.source(), Plan.of(partition.plan)
        rows = source.read(plan)
        yield from batches(rows, self.schema)
        if partition.leaves_receipts:
            source.leave_receipts(plan, attempt(rows.rows()), rows.receipts())


class PushingReader(Reader):
    """A reader that takes a query's filters.

    Apart from the other because Spark fails every query of a reader that has `pushFilters` where the session has
    pushdown switched off, and because of what Spark does where it is on: all queries of a DataFrame share the plan that
    was made last, with its filters. So it is for a read that asked for it.
    """

    def pushFilters(self, filters: list[Filter]) -> Iterator[Filter]:
        # An older Spark has no filters to import.
        from .filters import translated

        for filter in filters:
            text = translated(filter, self.schema)
            if text is None:
                yield filter
            else:
                self.where.append(text)


def attempt(rows: int) -> str:
    """Which attempt of which task handed so many rows to Spark; the driver finds it again by this."""
    task = TaskContext.get()
    assert task is not None
    return json.dumps(
        {
            "execution": task.getLocalProperty("spark.sql.execution.id"),
            "stage": task.stageId(),
            "task": task.taskAttemptId(),
            "rows": rows,
            # A task may read the same part twice, as in a self join.
            "read": uuid.uuid4().hex,
        }
    )
