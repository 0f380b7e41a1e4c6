"""The package without Spark: streams, the read that commits, errors."""

from __future__ import annotations

import json
import os
import pathlib
import pickle
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
import restmark
from api import Api
from restmark import _restmark

Write = Callable[..., str]

COLUMNS = "columns { id { type = int64 }, name { type = string }, price { type = \"decimal(10,2)\" } }"
PAGES = 'pagination { style = cursor, cursor-path = "/next" }'


def rows(count: int) -> list[dict[str, Any]]:
    return [{"id": n, "name": f"row {n}", "price": f"{n}.25"} for n in range(count)]


def checkpoint(tmp_path: pathlib.Path) -> str:
    return f'checkpoint {{ enabled = true, path = "{tmp_path}/state", mode = cursor }}'


def stored(tmp_path: pathlib.Path) -> dict[str, Any] | None:
    file = tmp_path / "state" / "events.checkpoint.json"
    return json.loads(file.read_text()) if file.exists() else None


def test_a_scan_is_an_arrow_stream_of_what_was_asked_for(api: Api, config: Write) -> None:
    api.serves_pages(rows(2_500), 100)
    table = restmark.open(config(f"{COLUMNS}\n{PAGES}")).table("events")
    reader = table.scan(select=["price", "id"], where="id >= 10 AND name <> 'row 11'", batch_rows=1_000)
    assert reader.schema == pa.schema([("price", pa.decimal128(10, 2)), ("id", pa.int64())])
    batches = list(reader)
    assert [batch.num_rows for batch in batches] == [1_000, 1_000, 489]
    assert pa.Table.from_batches(batches)["id"].to_pylist() == [10, *range(12, 2_500)]
    assert table.scan(limit=7).read_all()["id"].to_pylist() == list(range(7))


def test_other_libraries_read_the_stream_itself(api: Api, config: Write) -> None:
    api.serves_pages(rows(300), 100)
    table = restmark.open(config(f"{COLUMNS}\n{PAGES}")).table("events")
    # What polars, DuckDB and pandas take: the Arrow PyCapsule interface.
    assert pa.table(table.read())["id"].to_pylist() == list(range(300))
    duckdb = pytest.importorskip("duckdb")
    stream = table.scan()
    assert duckdb.sql("SELECT count(*), sum(id), sum(price) FROM stream").fetchone() == (300, 44_850, 44_925)
    polars = pytest.importorskip("polars")
    assert polars.DataFrame(table.scan())["id"].sum() == 44_850


def test_an_inferred_table_has_the_columns_of_its_first_page(api: Api, config: Write) -> None:
    api.serves_pages([{"b": 1, "a": {"x": "y"}}], 10)
    table = restmark.open(config(PAGES, "schema { mode = infer }")).table("events")
    assert table.schema == pa.schema([("b", pa.int64()), ("a_x", pa.string())])
    assert table.scan().read_all().to_pylist() == [{"b": 1, "a_x": "y"}]
    api.serves_pages([], 10)
    assert table.scan().read_all().num_rows == 0


def test_the_rows_of_a_read_can_be_had_once(api: Api, config: Write) -> None:
    api.serves_pages(rows(3), 10)
    read = restmark.open(config(f"{COLUMNS}\n{PAGES}")).table("events").read()
    assert len(list(read)) == 1
    for again in (read.batches, lambda: iter(read), lambda: pa.table(read)):
        with pytest.raises(restmark.ScanError, match="once"):
            again()


def test_numbers_that_cannot_be_are_refused_and_large_ones_bounded(api: Api, config: Write) -> None:
    api.serves_pages(rows(3), 10)
    table = restmark.open(config(f"{COLUMNS}\n{PAGES}")).table("events")
    wrong: list[dict[str, int]] = [{"batch_rows": 0}, {"batch_rows": -1}, {"limit": -1}]
    for numbers in wrong:
        with pytest.raises(restmark.ScanError, match="must"):
            table.scan(**numbers)
    assert table.scan(batch_rows=2**62).read_all().num_rows == 3
    assert table.scan(limit=0).read_all().num_rows == 0


def test_r01_a_read_commits_at_the_end_of_its_block(api: Api, config: Write, tmp_path: pathlib.Path) -> None:
    api.serves_pages(rows(300), 100)
    table = restmark.open(config(f"{COLUMNS}\n{PAGES}\n{checkpoint(tmp_path)}")).table("events")
    with table.read(select=["id"]) as read:
        taken = read.batches().read_all()
        assert stored(tmp_path) is None, "nothing moves before the block has ended"
    assert taken["id"].to_pylist() == list(range(300))
    assert read.position == {"type": "cursor", "value": "200"} == table.position
    assert (stored(tmp_path) or {})["value"] == "200"
    assert read.counts["rows_read"] == 300 and read.counts["rows_emitted"] == 300
    assert restmark.open(config(f"{COLUMNS}\n{PAGES}\n{checkpoint(tmp_path)}")).table("events").scan().read_all()["id"][0].as_py() == 200


def test_r01_nothing_moves_without_every_row_and_a_block_that_ended_well(
    api: Api, config: Write, tmp_path: pathlib.Path
) -> None:
    api.serves_pages(rows(300), 100)
    table = restmark.open(config(f"{COLUMNS}\n{PAGES}\n{checkpoint(tmp_path)}")).table("events")
    with pytest.raises(ZeroDivisionError), table.read() as read:
        read.batches().read_all()
        raise ZeroDivisionError
    with table.read(batch_rows=100) as read:
        for batch in read:
            # The receipt is there already, or will be at once; the rows are not taken.
            if batch["id"][0].as_py() == 200:
                break
    with table.read() as read:
        pass
    table.read().batches().read_all()
    table.scan().read_all()
    api.answer = lambda path, params: {"items": rows(3), "next": "0"} if not params else 500
    with pytest.raises(restmark.HttpError), restmark.open(config(f"{COLUMNS}\n{PAGES}\n{checkpoint(tmp_path)}", "http.max-retries = 0")).table("events").read() as read:
        read.batches().read_all()
    assert stored(tmp_path) is None


def test_r08_one_of_two_reads_wins(api: Api, config: Write, tmp_path: pathlib.Path) -> None:
    api.serves_pages(rows(300), 100)
    table = restmark.open(config(f"{COLUMNS}\n{PAGES}\n{checkpoint(tmp_path)}")).table("events")
    with pytest.raises(restmark.ConflictError) as failed, table.read() as slow:
        slow.batches().read_all()
        with table.read() as fast:
            fast.batches().read_all()
    assert failed.value.retryable and failed.value.kind == "Conflict"
    assert (stored(tmp_path) or {})["generation"] == 1


def test_r11_every_problem_is_named_and_an_exception_keeps_its_kind(config: Write, api: Api) -> None:
    with pytest.raises(restmark.ConfigError) as failed:
        restmark.open(config("endpont = 1\npagination { style = curser }"))
    error = pickle.loads(pickle.dumps(failed.value))
    assert type(error) is restmark.ConfigError and str(error) == str(failed.value)
    keys = [problem["key"] for problem in error.problems]
    assert "tables.events.endpont" in keys and "tables.events.pagination.style" in keys
    assert all(problem["line"] for problem in error.problems) and all(key in str(error) for key in keys)
    source = restmark.open(config(COLUMNS))
    for wrong in (lambda: source.table("evens"), lambda: source.table("events").scan(where="id >")):
        with pytest.raises(restmark.ScanError):
            wrong()
    with pytest.raises(restmark.ConfigError, match=r"no\.conf"):
        restmark.open("/nowhere/no.conf")
    api.answer = lambda path, params: {"error": "no"}
    with pytest.raises(restmark.DecodeError, match="/items"):
        source.table("events").scan().read_all()


def test_r23_a_travelling_configuration_holds_no_secret(config: Write, api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    api.serves_pages(rows(3), 10)
    monkeypatch.setenv("API_TOKEN", "S3CR3T-token")
    source = _restmark.Source.open(config(f"{COLUMNS}\n{PAGES}", 'auth { type = bearer, token = ${API_TOKEN} }'))
    text = source.travelling()
    assert "S3CR3T" not in text and "S3CR3T" not in source.plan("events").text()
    monkeypatch.setenv("API_TOKEN", "theirs")
    arrived = _restmark.Source.load(text, "api.conf")
    assert sum(batch.num_rows for batch in arrived.read(arrived.plan("events"))) == 3
    assert api.headers[-1]["authorization"] == "Bearer theirs"
    written = _restmark.Source.open(config(COLUMNS, 'auth { type = bearer, token = "S3CR3T-token" }'))
    with pytest.raises(restmark.ConfigError, match=r"auth\.token") as failed:
        written.travelling()
    assert "S3CR3T" not in str(failed.value)


def test_r01_a_task_elsewhere_leaves_its_receipt_and_the_driver_commits(
    api: Api, config: Write, tmp_path: pathlib.Path
) -> None:
    api.serves_pages(rows(300), 100)
    driver = _restmark.Source.open(config(f"{COLUMNS}\n{PAGES}\n{checkpoint(tmp_path)}"))
    plan = driver.plan("events", distributed=True)
    (part,) = plan.split()
    text, task = driver.travelling(), _restmark.Plan.of(part.text())
    executor = _restmark.Source.load(text, "api.conf")
    reading = executor.read(task)
    with pytest.raises(restmark.ScanError, match="end"):
        reading.receipts()
    assert sum(batch.num_rows for batch in reading) == 300
    with pytest.raises(restmark.ScanError, match="sealed"):
        executor.commit(task, reading.receipts())
    executor.leave_receipts(task, "stage 0 attempt 0", reading.receipts())
    executor.leave_receipts(task, "stage 0 attempt 0", reading.receipts())
    ((attempt, receipt),) = driver.receipts(plan)
    assert attempt == "stage 0 attempt 0" and json.loads(receipt)["rows"] == 300
    with pytest.raises(restmark.ScanError, match="2 receipts"):
        driver.commit(plan, [receipt, receipt])
    with pytest.raises(restmark.ScanError, match="another plan"):
        driver.commit(driver.plan("events"), [receipt])
    assert stored(tmp_path) is None
    assert driver.commit(plan, [receipt]) == {"type": "cursor", "value": "200"}
    assert driver.commit(plan, [receipt]) == {"type": "cursor", "value": "200"}, "a lost acknowledgement"
    driver.forget_receipts(plan)
    assert driver.receipts(plan) == []
    assert (stored(tmp_path) or {})["generation"] == 1


def test_the_gil_is_free_while_a_read_waits(api: Api, config: Write) -> None:
    answered = threading.Event()
    ticks = 0

    def answer(path: str, params: dict[str, str]) -> Any:
        # This server is Python too: it could not answer if the reader held the lock.
        answered.wait(10)
        return {"items": rows(5), "next": None}

    api.answer = answer

    def tick() -> None:
        nonlocal ticks
        while not api.requests:
            time.sleep(0.001)
        ticks += 1
        answered.set()

    read = restmark.open(config(f"{COLUMNS}\n{PAGES}")).table("events").read()
    looked: list[int] = []

    def look() -> None:
        while not api.requests:
            time.sleep(0.001)
        looked.append(read.counts["requests"])
        tick()

    ticker = threading.Thread(target=look)
    ticker.start()
    assert read.batches().read_all().num_rows == 5
    ticker.join()
    assert ticks == 1 and looked == [1], "the figures can be looked at meanwhile"


def test_ctrl_c_ends_a_read_that_waits(api: Api, config: Write) -> None:
    release = threading.Event()

    def answer(path: str, params: dict[str, str]) -> Any:
        release.wait(60)
        return 500

    api.answer = answer
    program = f"""
import restmark, sys
try:
    restmark.open({config(f"{COLUMNS}{chr(10)}{PAGES}")!r}).table("events").scan().read_all()
except KeyboardInterrupt:
    sys.exit(42)
"""
    child = subprocess.Popen([sys.executable, "-c", program])
    while not api.requests:
        assert child.poll() is None
        time.sleep(0.01)
    os.kill(child.pid, signal.SIGINT)
    assert child.wait(60) == 42
    release.set()


def test_a_process_that_was_forked_reads_too(api: Api, config: Write) -> None:
    api.serves_pages(rows(20), 10)
    path = config(f"{COLUMNS}\n{PAGES}")
    parents = restmark.open(path).table("events")
    assert parents.scan().read_all().num_rows == 20
    child = os.fork()
    if child == 0:
        try:
            parents.scan()
        except RuntimeError:
            # Its connections are the parent's; a source of its own has others.
            os._exit(restmark.open(path).table("events").scan().read_all().num_rows)
        os._exit(99)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 20


def test_r09_configuration_checkpoint_and_receipts_stand_in_a_store(
    api: Api, config: Write, s3: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {
        "AWS_ENDPOINT_URL": s3,
        "AWS_ALLOW_HTTP": "true",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "S3CR3T-of-the-store",
        "AWS_REGION": "us-east-1",
    }.items():
        monkeypatch.setenv(name, value)
    api.serves_pages(rows(300), 100)
    text = pathlib.Path(config(f'{COLUMNS}\n{PAGES}\ncheckpoint {{ enabled = true, path = "s3a://lake/state", mode = cursor }}'))

    def put(name: str, body: str) -> None:
        request = urllib.request.Request(f"{s3}/lake/{name}", body.encode(), {"Content-Type": "text/plain"}, method="PUT")
        with urllib.request.urlopen(request):
            pass

    put("conf/api.conf", text.read_text())
    table = restmark.open("s3a://lake/conf/api.conf").table("events")
    with table.read() as read:
        read.batches().read_all()
    assert table.position == {"type": "cursor", "value": "200"}
    source = _restmark.Source.open("s3a://lake/conf/api.conf")
    assert "S3CR3T" not in source.travelling()
    plan = source.plan("events", full=True)
    reading = source.read(plan)
    assert sum(batch.num_rows for batch in reading) == 300
    source.leave_receipts(plan, "0", reading.receipts())
    assert len(source.receipts(plan)) == 1
    source.forget_receipts(plan)
    assert source.receipts(plan) == []

    put("conf/relative.conf", text.read_text().replace("s3a://lake/state", "state"))
    with pytest.raises(restmark.ConfigError, match=r"checkpoint\.path.*s3a://lake/conf/state"):
        restmark.open("s3a://lake/conf/relative.conf")
    with pytest.raises(restmark.ConfigError, match="no such file"):
        restmark.open("s3a://lake/conf/none.conf")


def test_the_types_are_declared() -> None:
    mypy = pytest.importorskip("mypy.api")
    out, _, code = mypy.run(["--strict", "--ignore-missing-imports", "--package", "restmark"])
    assert code == 0, out
