"""The exceptions: one for each kind of error that restmark knows."""

from __future__ import annotations

from typing import Any


class RestmarkError(Exception):
    """What went wrong, in one line; of a configuration, each problem on a line of its own."""

    #: Whether the same call may succeed later without anyone changing anything.
    retryable: bool
    #: The problems of a configuration: dicts of ``key``, ``message``, ``file`` and ``line``.
    problems: list[dict[str, Any]]

    def __init__(self, message: str, problems: list[dict[str, Any]] | None = None, retryable: bool = False) -> None:
        # All three are arguments of the exception, so that it survives pickling.
        super().__init__(message, problems or [], retryable)
        self.problems = problems or []
        self.retryable = retryable

    def __str__(self) -> str:
        return str(self.args[0])

    @property
    def kind(self) -> str:
        """The name of its kind, such as ``Config``."""
        return type(self).__name__.removesuffix("Error")


class ConfigError(RestmarkError):
    """The configuration cannot be right."""


class SchemaError(RestmarkError):
    """The columns of a table cannot be known."""


class ScanError(RestmarkError):
    """What was asked for cannot be read, or proves nothing."""


class AuthError(RestmarkError):
    """The API refused the credentials."""


class HttpError(RestmarkError):
    """The API did not answer, or with an error."""


class DecodeError(RestmarkError):
    """The API answered with what cannot be what was asked for."""


class IncompleteError(RestmarkError):
    """The walk did not reach its end."""


class ConflictError(RestmarkError):
    """Another run moved the checkpoint first."""


class StoreError(RestmarkError):
    """A stored state cannot be read or written."""


class BugError(RestmarkError):
    """A mistake of restmark's."""
