"""Which table of which configuration: a value without secrets that travels to the executors."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from inspect import signature
from typing import Any

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from .._errors import ConfigError, SchemaError
from .._restmark import Rows, Source
from .options import Options, nearest

log = logging.getLogger("restmark.spark")

# An older Spark knows no other zone in Arrow.
UTC: dict[str, Any] = {"timezone": "UTC"} if "timezone" in signature(to_arrow_schema).parameters else {}


@dataclass(frozen=True)
class Origin:
    """A table. The configuration's secrets are names of variables here, which each process answers for itself."""

    text: str
    name: str
    table: str
    columns: str | None
    is_checkpointed: bool

    @classmethod
    def of(cls, options: Options) -> Origin:
        """Reads the configuration file; what the API has to be asked for its columns is asked once, here."""
        source = Source.open(options.config)
        table, known = options.table, source.tables()
        # `<table>_<field>` may be the table of an array, which the source knows better.
        if table not in known and not any(table.startswith(f"{name}_") for name in known):
            raise ConfigError(f"no table {table}{nearest(table, known)}")
        for warning in source.warnings():
            log.warning("%s", warning)
        return cls(source.travelling(), options.config, table, source.columns(table), source.is_checkpointed(table))

    def source(self) -> Source:
        """The source in this process; all tasks of a process share its token and its rate limit."""
        return _load(self.text, self.name)

    def schema(self, select: tuple[str, ...] | None = None) -> StructType:
        """The table's columns as Spark names them, or those that were selected."""
        schema = from_arrow_schema(pa.schema(self.source().schema(self.table, self.columns)))
        if select is None:
            return schema
        unknown = [name for name in select if name not in schema.names]
        if unknown:
            raise SchemaError(f"{self.table} has no column {unknown[0]}{nearest(unknown[0], schema.names)}")
        return StructType([schema[name] for name in select])

    def check(self, wanted: StructType) -> None:
        """A schema of the user's picks columns and orders them; it converts nothing."""
        own = self.schema(tuple(wanted.names))
        for field, ours in zip(wanted, own, strict=True):
            if field.dataType != ours.dataType or not field.nullable:
                raise SchemaError(
                    f"{self.table}.{field.name} is {ours.dataType.simpleString()} and may be NULL, "
                    f"not {field.dataType.simpleString()}{'' if field.nullable else ' NOT NULL'}: cast it after loading"
                )


def batches(rows: Rows, schema: StructType) -> Iterator[pa.RecordBatch]:
    """The batches as Spark wants them: the same columns by its own names of types."""
    wanted = to_arrow_schema(schema, **UTC)
    for batch in rows:
        yield pa.RecordBatch.from_arrays([batch.column(f.name).cast(f.type) for f in wanted], schema=wanted)


@lru_cache(maxsize=16)
def _load(text: str, name: str) -> Source:
    return Source.load(text, name)
