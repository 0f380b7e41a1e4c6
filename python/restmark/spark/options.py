"""The options of a read: what `.option(...)` may say, checked all at once."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from difflib import get_close_matches
from typing import Any, Callable

from .._errors import ConfigError

SECOND = "%Y-%m-%dT%H:%M:%SZ"
UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


@dataclass(frozen=True)
class Options:
    """What a read was asked for. The names of the fields are the options', `-` written `_`."""

    config: str
    table: str
    select: tuple[str, ...] | None = None
    where: str | None = None
    full: bool | None = None
    pushdown: bool | None = None
    starting: str | None = None
    max_window: timedelta | None = None

    @classmethod
    def of(cls, given: Mapping[str, str]) -> Options:
        """Reads the options; Spark hands their names over in small letters."""
        found: dict[str, Any] = {}
        wrong = []
        for name, text in given.items():
            if name not in READERS:
                wrong.append(f"{name} is no option{nearest(name, READERS)}")
                continue
            try:
                found[name.replace("-", "_")] = READERS[name](text)
            except ValueError as error:
                wrong.append(f"{name} = {text!r}: {error}")
        wrong += [f"{name} is required" for name in ("config", "table") if not given.get(name)]
        if wrong:
            raise ConfigError("; ".join(wrong))
        return cls(**found)

    def refuse(self, where: str, *names: str) -> None:
        """An option that would do nothing is an error, not a silence."""
        given = [name.replace("_", "-") for name in names if getattr(self, name) is not None]
        if given:
            raise ConfigError(f"{', '.join(given)}: not for a {where}")


def nearest(name: str, known: Any) -> str:
    """`; did you mean ...?`, or nothing."""
    close = get_close_matches(name, list(known), 1)
    return f"; did you mean {close[0]}?" if close else f"; there are {', '.join(known)}"


def instant(text: str) -> datetime:
    """A whole second of an offset."""
    return datetime.strptime(text, SECOND).replace(tzinfo=timezone.utc)


def _flag(text: str) -> bool:
    try:
        return {"true": True, "false": False}[text.lower()]
    except KeyError:
        raise ValueError("true or false") from None


def _names(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(","))
    if not all(names) or len(set(names)) < len(names):
        raise ValueError("names of columns, each once, with commas between them")
    return names


def _predicate(text: str) -> str:
    if not text.strip():
        raise ValueError("a predicate")
    return text


def _starting(text: str) -> str:
    if text in ("now", "earliest"):
        return text
    try:
        at = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        at = None
    if at is None or at.tzinfo is None:
        raise ValueError("now, earliest or an instant with its zone, as 2026-01-02T03:04:05Z") from None
    try:
        return at.astimezone(timezone.utc).strftime(SECOND)
    except OverflowError:
        raise ValueError("an instant of the years 1 to 9999") from None


def _window(text: str) -> timedelta:
    parts = re.fullmatch(r"(\d+) *(s|m|h|d)(?:econds?|in(?:utes?)?|ours?|ays?)?", text)
    if not parts or not int(parts[1]):
        raise ValueError("whole seconds, minutes, hours or days, at least a second, as 30s, 1h or 7 days")
    try:
        return timedelta(**{UNITS[parts[2]]: int(parts[1])})
    except OverflowError:
        raise ValueError("a window of less than 2.7 million years") from None


READERS: dict[str, Callable[[str], Any]] = {
    "config": str,
    "table": str,
    "select": _names,
    "where": _predicate,
    "full": _flag,
    "pushdown": _flag,
    "starting": _starting,
    "max-window": _window,
}
