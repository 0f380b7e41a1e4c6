"""REST APIs as tables, with a mark of how far they were read that you can trust.

    >>> import restmark
    >>> with restmark.open("api.conf").table("events").read() as read:   # doctest: +SKIP
    ...     store(read)
"""

from __future__ import annotations

from ._errors import (
    AuthError,
    BugError,
    ConfigError,
    ConflictError,
    DecodeError,
    HttpError,
    IncompleteError,
    RestmarkError,
    ScanError,
    SchemaError,
    StoreError,
)
from ._table import Read, Source, Table, open

__all__ = [
    "AuthError",
    "BugError",
    "ConfigError",
    "ConflictError",
    "DecodeError",
    "HttpError",
    "IncompleteError",
    "Read",
    "RestmarkError",
    "ScanError",
    "SchemaError",
    "Source",
    "StoreError",
    "Table",
    "open",
]
