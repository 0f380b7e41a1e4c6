"""Tables of one API as Arrow streams, and the read that commits."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Any

import pyarrow as pa

from . import _restmark
from ._errors import ScanError


def open(path: str | os.PathLike[str]) -> Source:
    """Loads a configuration, of this machine or of a store (``s3a://``, ``hdfs://``, ...). Sends nothing to the API.

    Raises ``ConfigError`` with all problems at once.
    """
    return Source(_restmark.Source.open(os.fspath(path)))


class Source:
    """One API: the tables of one configuration."""

    def __init__(self, native: _restmark.Source) -> None:
        self._native = native

    @property
    def tables(self) -> list[str]:
        """The names of its tables, in the order of the file."""
        return self._native.tables()

    @property
    def warnings(self) -> list[str]:
        """What is allowed in the configuration but worth saying."""
        return self._native.warnings()

    def table(self, name: str) -> Table:
        """A table by name, or ``<table>_<field>`` of an array column. Raises ``ScanError`` for one that there is not."""
        self._native.is_checkpointed(name)
        return Table(self._native, name)

    def __repr__(self) -> str:
        return repr(self._native)


class Table:
    """What one endpoint answers, as rows."""

    def __init__(self, source: _restmark.Source, name: str) -> None:
        self._source = source
        self.name = name

    @property
    def schema(self) -> pa.Schema:
        """Its columns; where they are inferred, the API is asked for its first page."""
        return self._source.schema(self.name)

    @property
    def position(self) -> dict[str, Any] | None:
        """The committed position, ``{"type": ..., "value": ...}``; ``None`` before the first commit."""
        return self._source.position(self.name)

    def scan(
        self,
        select: Sequence[str] | None = None,
        where: str | None = None,
        limit: int | None = None,
        *,
        full: bool = False,
        batch_rows: int = 10_000,
    ) -> pa.RecordBatchReader:
        """The rows from the committed position on, as an Arrow stream; moves nothing.

        ``where`` is a predicate in SQL's words; the API is asked for what it can answer. ``full`` starts at the beginning.
        Nothing is sent before the first batch is asked for, unless the columns have to be inferred.
        """
        return Read(self._source, self.name, select, where, limit, full, batch_rows).batches()

    def read(
        self,
        select: Sequence[str] | None = None,
        where: str | None = None,
        *,
        full: bool = False,
        batch_rows: int = 10_000,
    ) -> Read:
        """A read that commits: use it in a ``with`` block that stores the rows."""
        return Read(self._source, self.name, select, where, None, full, batch_rows)

    def __repr__(self) -> str:
        return f"Table({self.name!r})"


class Read:
    """The rows of one read. At the end of its ``with`` block the position moves, but only if the block ended without an
    exception and every row had been taken (R1, R2).

    It is an Arrow stream (``__arrow_c_stream__``) and an iterable of ``pyarrow.RecordBatch``; either can be had once.
    """

    def __init__(
        self,
        source: _restmark.Source,
        table: str,
        select: Sequence[str] | None,
        where: str | None,
        limit: int | None,
        full: bool,
        batch_rows: int,
    ) -> None:
        names = None if select is None else list(select)
        self._source = source
        self._plan = source.plan(table, select=names, where=where, limit=limit, full=full)
        self._rows = source.read(self._plan, batch_rows, limit)
        self._is_taken = False
        self._is_exhausted = False
        self._is_entered = False
        #: The position that was committed; ``None`` until then, and where there is none.
        self.position: dict[str, Any] | None = None

    def batches(self) -> pa.RecordBatchReader:
        """The rows as one stream of batches of about ``batch_rows`` rows. Raises ``ScanError`` where somebody has it."""
        if self._is_taken:
            raise ScanError("the rows of a read can be had once: make another one")
        schema = self._rows.schema
        self._is_taken = True
        return pa.RecordBatchReader.from_batches(schema, self._each())

    @property
    def schema(self) -> pa.Schema:
        """The columns of the batches."""
        return self._rows.schema

    @property
    def counts(self) -> dict[str, Any]:
        """The loss report so far: requests, rows, values that became NULL, and so on (R25)."""
        return self._rows.counts()

    @property
    def warnings(self) -> list[str]:
        """What is worth saying before the read."""
        return self._plan.warnings

    def _each(self) -> Iterator[pa.RecordBatch]:
        yield from self._rows
        self._is_exhausted = True

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return iter(self.batches())

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.batches().__arrow_c_stream__(requested_schema)

    def __enter__(self) -> Read:
        if self._is_entered:
            raise ScanError("a read is entered once: make another one")
        self._is_entered = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # A read that was left early proves nothing, and that is no mistake: nothing moves.
        if kind is None and self._is_exhausted:
            self.position = self._source.commit(self._plan, self._rows.receipts())
