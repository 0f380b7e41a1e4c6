"""A stream of a timestamp table: windows `(start, end]` that meet, each a micro-batch of Spark's (R27)."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxFiles, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from .._restmark import Plan
from .options import SECOND, Options, instant
from .origin import Origin, batches


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Hands out windows. All that Spark has to remember is where the last one ended."""

    def __init__(self, origin: Origin, options: Options, schema: StructType) -> None:
        origin.source().check_stream(origin.table)
        self.origin = origin
        self.options = options
        self.schema = schema
        self.target: str | None = None

    def initialOffset(self) -> dict[str, Any]:
        starting = self.options.starting or "now"
        if starting == "now":
            starting = self._horizon()
        # Spark asks again when it replays a first batch. So that one holds no rows and only records the start.
        return offset(None if starting == "earliest" else starting) | {"new": True}

    def getDefaultReadLimit(self) -> ReadLimit:
        # Spark has no limit by time; one file stands for one window.
        return ReadMaxFiles(1) if self.options.max_window else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        self.target = self._horizon()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        if start.get("new"):
            return offset(start["value"])
        begin, end = start["value"], self.target or self._horizon()
        if begin is None:
            return offset(end)
        if self.options.max_window and not isinstance(limit, ReadAllAvailable):
            end = min(end, later(begin, self.options.max_window))
        # Fixed width: texts compare as instants do.
        return offset(max(begin, end))

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[Window]:
        if start.get("new") or start["value"] == end["value"]:
            return []
        plan = self.origin.source().plan(
            self.origin.table,
            select=self.schema.names,
            where=self.options.where,
            distributed=True,
            columns=self.origin.columns,
            window=(start["value"], end["value"]),
        )
        return [Window(part.text()) for part in plan.split()]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Window)
        return batches(self.origin.source().read(Plan.of(partition.plan)), self.schema)

    def _horizon(self) -> str:
        return self.origin.source().horizon(self.origin.table)


class Window(InputPartition):
    """A part of a window's plan, as it travels."""

    def __init__(self, plan: str) -> None:
        self.plan = plan


def offset(value: str | None) -> dict[str, Any]:
    """An offset as it stands in Spark's log."""
    return {"type": "timestamp", "value": value}


def later(value: str, width: timedelta) -> str:
    """The second so much later, or the last one that there is."""
    try:
        return (instant(value) + width).strftime(SECOND)
    except OverflowError:
        return datetime.max.strftime(SECOND)
