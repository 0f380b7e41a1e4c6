"""Filters of a query: what the server saw, and that the rows are the same with and without."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    GreaterThan,
    In,
    IsNull,
    Not,
    StringContains,
    StringStartsWith,
)
from pyspark.sql.types import LongType, StringType, StructField, StructType

from restmark.spark import checkpointed
from restmark.spark.filters import translated

from place import Place, at, records

ENABLED = "spark.sql.python.filterPushdown.enabled"


@pytest.fixture
def pushing(spark: SparkSession) -> Iterator[SparkSession]:
    spark.conf.set(ENABLED, "true")
    yield spark
    spark.conf.unset(ENABLED)


@pytest.fixture
def events(place: Place) -> Place:
    place.api.tables["events"] = records(1, 250)
    place.table("events", filters=[
        {"param": "kind", "column": "kind", "operators": ["eq"]},
        {"param": "since", "column": "at", "operators": ["gte"]},
    ])
    return place


def sent(place: Place) -> list[dict[str, str]]:
    return [{k: v for k, v in request.query.items() if k != "cursor"} for request in place.api.requested("events")]


def test_what_the_api_answers_is_sent(pushing: SparkSession, events: Place) -> None:
    df = events.load(pushing, "events", pushdown="true")
    found = df.where(f"kind = 'odd' AND at >= timestamp'{at(100)}' AND id < 150").collect()
    assert sorted(row.id for row in found) == list(range(101, 150, 2))
    assert sent(events) == [{"kind": "odd", "since": at(100)}]


def test_where_of_the_read_and_filters_of_the_query_add_up(pushing: SparkSession, events: Place) -> None:
    df = events.load(pushing, "events", pushdown="true", where="id < 10 OR id > 240")
    assert sorted(row.id for row in df.where("kind = 'odd'").collect()) == [1, 3, 5, 7, 9, 241, 243, 245, 247, 249]


def test_a_read_that_asks_in_vain_is_told(spark: SparkSession, events: Place) -> None:
    with pytest.raises(Exception, match=f"DATA_SOURCE_PUSHDOWN_DISABLED.*{ENABLED}"):
        events.load(spark, "events", pushdown="true").where("kind = 'odd'").count()
    assert events.load(spark, "events", pushdown="false").where("kind = 'odd'").count() == 125
    assert sent(events) == [{}, {}, {}]


def test_nothing_is_sent_unless_the_read_asks(pushing: SparkSession, events: Place) -> None:
    """Spark keeps one plan for all queries of a DataFrame, so this is for one that has one filter."""
    df = events.load(pushing, "events")
    assert (df.where("kind = 'odd'").count(), df.count()) == (125, 250)
    assert df.where("id < 3").union(df.where("id > 249")).count() == 3
    assert {} in sent(events) and {"kind": "odd"} not in sent(events)


def test_spark_reads_all_of_a_dataframe_by_the_filters_of_its_last_plan(pushing: SparkSession, events: Place) -> None:
    """Why `pushdown` is off by default. When this fails Spark has mended it, and it can be on."""
    df = events.load(pushing, "events", pushdown="true")
    assert df.where("id < 3").union(df.where("id > 249")).count() == 1 + 1
    assert df.count() == 1


def test_r10_a_checkpointed_table_is_asked_for_everything(pushing: SparkSession, events: Place) -> None:
    events.table("events", checkpoint=True, filters=[{"param": "kind", "column": "kind", "operators": ["eq"]}])
    with checkpointed(pushing):
        df = events.load(pushing, "events", pushdown="true").where("kind = 'odd' AND id < 100")
        df.write.parquet(str(events.folder / "out"))
    assert pushing.read.parquet(str(events.folder / "out")).count() == 50
    assert sent(events) == [{}, {}, {}]
    assert events.mark("events") == at(250)


AMOUNTS = [None, 0.0, -0.0, 0.1, 1e300]
VALUES = [None, "", "a", "A", "a'b", "%", "a%b", "x_y", "\\", 'say "hi"', "ä", "z" * 300]
TYPES = {"id": "int64", "at": "timestamp", "kind": "string", "amount": "float64", "price": "decimal(9,2)",
         "day": "date", "paid": "boolean", "small": "int32"}


@pytest.fixture
def odd_values(place: Place) -> Place:
    place.api.tables["odd"] = [
        {
            "id": n,
            "at": at(n) if n % 3 else None,
            "kind": VALUES[n % len(VALUES)],
            "amount": AMOUNTS[n % 5],
            "price": f"{n - 30}.{n % 7:02}" if n % 4 else None,
            "day": f"2026-01-{n % 28 + 1:02}" if n % 5 else None,
            "paid": [None, True, False][n % 3],
            "small": n - 30 if n % 6 else None,
        }
        for n in range(60)
    ]
    place.table("odd", columns={name: {"type": of} for name, of in TYPES.items()})
    return place


@pytest.mark.parametrize(
    "condition",
    [
        "kind = 'a'", "kind <> 'a'", "NOT (kind <=> 'a')", "kind <=> NULL", "kind = ''", "kind = 'a\\'b'",
        "kind > 'a'", "kind IN ('a', NULL)", "kind NOT IN ('a', 'A')", "kind NOT IN ('a', NULL)", "kind LIKE 'a%'",
        "kind LIKE '%\"%'", "kind LIKE '%\\\\%%'", "kind LIKE 'a\\\\%%'", "kind = 'ä'",
        "kind IS NULL", "kind IS NOT NULL",
        "amount = 0", "amount <> 0.1D", "amount > -0.0D", "amount < double('NaN')", "amount = 1e300D",
        "id BETWEEN 5 AND 9", "id > 2147483647", "id IN (1, 2, 3)", "small < -3", "small >= 4.5",
        "at = timestamp'2026-01-01T00:00:07Z'", "at > timestamp'2026-01-01T00:00:07.000001Z'", "at <=> NULL",
        "at < date'2026-01-02'", "day = date'2026-01-07'", "day >= timestamp'2026-01-07T12:00:00Z'",
        "price > 1.5", "price <= -2.05", "price = 4", "paid", "NOT paid", "paid <=> false",
    ],
)
def test_a_filter_means_the_same_here_and_there(pushing: SparkSession, odd_values: Place, condition: str) -> None:
    pushed = odd_values.load(pushing, "odd", pushdown="true").where(condition)
    plain = odd_values.load(pushing, "odd").where(condition)
    assert sorted(row.id for row in pushed.collect()) == sorted(row.id for row in plain.collect())


SCHEMA = StructType(
    [StructField("k", StringType()), StructField("n", LongType()), StructField('odd "name"', LongType())]
)


@pytest.mark.parametrize(
    ("filter", "text"),
    [
        (EqualTo(("k",), "it's"), "\"k\" = 'it''s'"),
        (Not(In(("n",), (1, None))), 'NOT ("n" IN (1, NULL))'),
        (EqualNullSafe(("n",), 1), '("n" = 1 AND "n" IS NOT NULL)'),
        (GreaterThan(('odd "name"',), -1), '"odd ""name""" > -1'),
        (IsNull(("n",)), '"n" IS NULL'),
        (StringStartsWith(("k",), "a'b"), "\"k\" LIKE 'a''b%'"),
        (StringContains(("k",), "50%"), None),
        (EqualTo(("n",), True), None),
        (EqualTo(("n",), 1.0), None),
        (EqualTo(("n", "inner"), 1), None),
        (EqualTo(("k",), 7), None),
        (In(("n",), ()), None),
        (Not(StringContains(("k",), "_")), None),
    ],
)
def test_what_is_not_surely_the_same_is_handed_back(filter, text: str | None) -> None:
    assert translated(filter, SCHEMA) == text
