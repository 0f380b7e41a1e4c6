"""Where scripts/setup keeps what it has installed for the tests."""

from __future__ import annotations

import os
from pathlib import Path

CACHE = Path(
    os.environ.get("RESTMARK_TEST_CACHE")
    or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "restmark-test"
)
