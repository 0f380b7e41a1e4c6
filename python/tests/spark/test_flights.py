"""Real servers with real data: all the flights out of New York in 2013, against the sums that SQLite itself finds."""

from __future__ import annotations

import json
import re
import sqlite3
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from restmark.spark import checkpointed

from installed import CACHE

SUMMED = ["id", "distance", "dep_delay", "air_time"]
CARRIERS = "9E AA AS B6 DL EV F9 FL HA MQ OO UA US VX WN YV".split()

CONFIG = """
base-url = "{base}"
http {{ idle-timeout = 60s, timeout = 60s }}
tables {{ flights {{
  endpoint = "/flights/flights.json"
  params {{ _shape = objects, _size = 5000, _nocount = 1, _nofacet = 1, _nosuggest = 1, {params} }}
  data-path = "/rows"
  pagination {{ style = cursor, cursor-path = "/next", cursor-param = _next }}
  columns {{
    id {{ type = int64 }}, distance {{ type = int64 }}, dep_delay {{ type = int64 }}, air_time {{ type = int64 }}
    carrier {{ type = string }}, time_hour {{ type = timestamp }}
  }}
  {more}
}} }}
"""


@pytest.fixture(scope="module")
def database() -> sqlite3.Connection:
    path = CACHE / "data" / "flights.db"
    if not path.exists():
        pytest.skip(f"{path} is missing: scripts/setup makes it")
    return sqlite3.connect(path)


@pytest.fixture(scope="module")
def datasette(database: sqlite3.Connection) -> Iterator[str]:
    server = subprocess.Popen(
        [CACHE / "venv" / "bin" / "datasette", "serve", CACHE / "data" / "flights.db", "--host", "127.0.0.1",
         "--port", "0", "--setting", "max_returned_rows", "5000", "--setting", "sql_time_limit_ms", "30000"],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )
    assert server.stderr is not None
    found = next(found for line in server.stderr if (found := re.search(r"running on (http://\S+)", line)))
    threading.Thread(target=lambda pipe: [None for _ in pipe], args=[server.stderr], daemon=True).start()
    yield found[1]
    server.terminate()
    server.wait()


def options(folder: Path, base: str, more: str = "", params: str = "") -> dict[str, str]:
    (folder / "flights.conf").write_text(CONFIG.format(base=base, more=more, params=params))
    return {"config": str(folder / "flights.conf"), "table": "flights"}


def totals(df: DataFrame) -> dict[str, Any]:
    """Count, and for each number its sum and how many there are."""
    columns = [f.count("*"), *(function(name) for name in SUMMED for function in (f.sum, f.count))]
    return labelled(df.agg(*columns).first())


def expected(database: sqlite3.Connection, where: str = "true") -> dict[str, Any]:
    columns = ", ".join(f"sum({name}), count({name})" for name in SUMMED)
    return labelled(database.execute(f"SELECT count(*), {columns} FROM flights WHERE {where}").fetchone())


def labelled(row: tuple) -> dict[str, Any]:
    return {"count": row[0]} | {name: tuple(row[1 + 2 * n : 3 + 2 * n]) for n, name in enumerate(SUMMED)}


def test_r14_all_the_flights_arrive(
    spark: SparkSession, datasette: str, database: sqlite3.Connection, tmp_path: Path
) -> None:
    df = spark.read.format("restmark").options(**options(tmp_path, datasette)).load()
    assert totals(df) == expected(database)


def test_r30_all_the_flights_arrive_in_partitions(
    spark: SparkSession, datasette: str, database: sqlite3.Connection, tmp_path: Path
) -> None:
    partition = f"partition {{ type = enum, param = carrier, values = {json.dumps(CARRIERS)} }}"
    df = spark.read.format("restmark").options(**options(tmp_path, datasette, partition)).load()
    assert df.rdd.getNumPartitions() == len(CARRIERS)
    assert totals(df) == expected(database)


def checkpoint(folder: Path) -> str:
    return (
        f'checkpoint {{ enabled = true, path = "{folder}/state", mode = timestamp, timestamp-path = "/time_hour", '
        "timestamp-param = time_hour__gte }"
    )


def test_r04_the_flights_of_a_block_move_the_checkpoint_to_the_last_hour(
    spark: SparkSession, datasette: str, database: sqlite3.Connection, tmp_path: Path
) -> None:
    with checkpointed(spark) as outcomes:
        given = options(tmp_path, datasette, checkpoint(tmp_path))
        spark.read.format("restmark").options(**given).load().write.parquet(str(tmp_path / "out"))
    assert totals(spark.read.parquet(str(tmp_path / "out"))) == expected(database)
    (last,) = database.execute("SELECT max(time_hour) FROM flights").fetchone()
    assert outcomes[0].position == {"type": "timestamp", "value": last}


def test_r27_the_flights_of_december_as_a_stream(
    spark: SparkSession, datasette: str, database: sqlite3.Connection, tmp_path: Path
) -> None:
    given = options(tmp_path, datasette, checkpoint(tmp_path), params="_sort = time_hour")
    df = spark.readStream.format("restmark").options(**given, starting="2013-12-01T00:00:00Z").load()
    writer = df.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "log"))
    writer.trigger(availableNow=True).start(str(tmp_path / "out")).awaitTermination()
    written = totals(spark.read.parquet(str(tmp_path / "out")))
    assert written == expected(database, "time_hour > '2013-12-01T00:00:00Z'")
    assert written["count"] > 20_000
