"""Spark's filters as restmark's `where`: only those that mean the same for every row."""

from __future__ import annotations

import math
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any, Callable

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)
from pyspark.sql.types import (
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructType,
    TimestampType,
)

OPERATORS: dict[type[Filter], str] = {
    EqualTo: "=", GreaterThan: ">", GreaterThanOrEqual: ">=", LessThan: "<", LessThanOrEqual: "<="
}
PATTERNS: dict[type[Filter], str] = {StringStartsWith: "{}%", StringEndsWith: "%{}", StringContains: "%{}%"}
WILD = "%_\\"
QUOTE = "'"


def translated(filter: Filter, schema: StructType) -> str | None:
    """The filter as SQL of restmark; `None` where it is not surely the same."""
    if isinstance(filter, Not):
        child = translated(filter.child, schema)
        return None if child is None else f"NOT ({child})"
    path: tuple[str, ...] = getattr(filter, "attribute", ())
    if len(path) != 1 or path[0] not in schema.names:
        return None
    column, of, value = quoted(path[0], '"'), schema[path[0]].dataType, getattr(filter, "value", None)
    if isinstance(filter, IsNull) or isinstance(filter, EqualNullSafe) and value is None:
        return f"{column} IS NULL"
    if isinstance(filter, IsNotNull):
        return f"{column} IS NOT NULL"
    if isinstance(filter, In):
        # NULL among the values leaves a row that equals none of them unknown, here as there.
        values = ["NULL" if item is None else literal(item, of) for item in filter.value]
        known = [item for item in values if item is not None]
        return f"{column} IN ({', '.join(known)})" if known and len(known) == len(values) else None
    text = literal(value, of)
    if text is None:
        return None
    if isinstance(filter, EqualNullSafe):
        return f"({column} = {text} AND {column} IS NOT NULL)"
    if pattern := PATTERNS.get(type(filter)):
        # Wildcards and escapes in the text would have to be escaped, and restmark has no word for that.
        is_plain = not set(WILD) & set(str(value))
        return f"{column} LIKE {quoted(pattern.format(value), QUOTE)}" if is_plain else None
    operator = OPERATORS.get(type(filter))
    return f"{column} {operator} {text}" if operator else None


def literal(value: Any, of: DataType) -> str | None:
    """The value as a literal of its column's own type; another type would be compared by other rules."""
    write = LITERALS.get(type(of))
    # A text with a collation compares as that likes.
    is_plain = not isinstance(of, StringType) or of == StringType()
    return write(value) if write and is_plain else None


def quoted(text: str, quote: str) -> str:
    return quote + text.replace(quote, quote * 2) + quote


def _exactly(kind: type, write: Callable[[Any], str | None]) -> Callable[[Any], str | None]:
    return lambda value: write(value) if type(value) is kind else None


def _instant(value: datetime) -> str | None:
    if value.tzinfo is None:
        return None
    text = value.astimezone(timezone.utc).replace(tzinfo=None).isoformat(timespec="microseconds")
    return f"TIMESTAMP '{text}Z'"


LITERALS: dict[type[DataType], Callable[[Any], str | None]] = {
    BooleanType: _exactly(bool, lambda value: str(value).upper()),
    IntegerType: _exactly(int, str),
    LongType: _exactly(int, str),
    # NaN and the infinities have an order in Spark, and none in SQL.
    DoubleType: _exactly(float, lambda value: repr(value) if math.isfinite(value) else None),
    DecimalType: _exactly(Decimal, lambda value: format(value, "f") if value.is_finite() else None),
    StringType: _exactly(str, lambda value: quoted(value, QUOTE)),
    DateType: _exactly(date, lambda value: f"DATE '{value.isoformat()}'"),
    TimestampType: _exactly(datetime, _instant),
}
