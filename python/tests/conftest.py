"""What the tests share: a scripted API on loopback, and configurations for it."""

from __future__ import annotations

import os
import pathlib
import subprocess
import urllib.request
from collections.abc import Callable, Iterator

import pytest

from api import Api
from installed import CACHE

REPOSITORY = pathlib.Path(__file__).parents[2]


@pytest.fixture
def api() -> Iterator[Api]:
    with Api() as served:
        yield served


@pytest.fixture
def config(api: Api, tmp_path: pathlib.Path) -> Callable[..., str]:
    """Writes a configuration of one table, `events`, over the API; the path of the file."""

    def write(table: str, top: str = "") -> str:
        path = tmp_path / "api.conf"
        path.write_text(
            f"""
            base-url = "{api.url}"
            {top}
            tables {{ events {{
              endpoint = /events
              data-path = "/items"
              {table}
            }} }}
            """,
            encoding="utf-8",
        )
        return str(path)

    return write


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Where skips are forbidden, a test that is skipped has failed."""
    outcome = yield
    report = outcome.get_result()
    if report.skipped and os.environ.get("RESTMARK_FORBID_SKIPS"):
        report.outcome = "failed"
        report.longrepr = f"skips are forbidden: {report.longrepr}"


@pytest.fixture(scope="session")
def s3() -> Iterator[str]:
    """The endpoint of a Moto server with the bucket `lake`."""
    python = CACHE / "moto/bin/python"
    if not python.exists():
        pytest.skip("scripts/setup has not installed Moto")
    server = subprocess.Popen([python, REPOSITORY / "tests/apps/s3.py"], stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        endpoint = server.stdout.readline().strip()
        with urllib.request.urlopen(urllib.request.Request(f"{endpoint}/lake", method="PUT")):
            yield endpoint
    finally:
        server.kill()
        server.wait()

