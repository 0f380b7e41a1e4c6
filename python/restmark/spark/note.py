"""What is left for whoever commits: a note of each plan on the driver's host, and the receipts of its tasks."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from .._restmark import Plan, Source
from .origin import Origin


@dataclass(frozen=True)
class Receipt:
    """A receipt and the task attempt that left it."""

    text: str
    partition: str
    plan: str
    execution: int | None
    stage: int
    task: int
    rows: int

    @classmethod
    def of(cls, attempt: str, text: str) -> Receipt:
        told, receipt = json.loads(attempt), json.loads(text)
        execution = None if told["execution"] is None else int(told["execution"])
        return cls(text, receipt["partition"], receipt["plan"], execution, told["stage"], told["task"], told["rows"])


@dataclass(frozen=True)
class Note:
    """A plan of a checkpointed table, when it was made, and where it came from."""

    planned: int
    id: str
    plan: str
    text: str
    name: str
    table: str

    @classmethod
    def of(cls, plan: Plan, origin: Origin) -> Note:
        return cls(time.time_ns(), plan.id, plan.text(), origin.text, origin.name, origin.table)

    def leave(self, directory: str) -> bool:
        """Puts the note into the directory, whole; `False` where nobody waits for it any more."""
        path = self.path(directory)
        hidden = path.with_suffix(".part")
        try:
            hidden.write_text(json.dumps(asdict(self)), encoding="utf-8")
        except FileNotFoundError:
            return False
        hidden.rename(path)
        return True

    def path(self, directory: str) -> Path:
        return Path(directory, f"{self.planned:020}-{self.id}.json")

    @classmethod
    def all(cls, directory: str) -> list[Note]:
        """The notes of a directory, the earliest plan first."""
        paths = sorted(Path(directory).glob("*.json"))
        return [cls(**json.loads(path.read_text(encoding="utf-8"))) for path in paths]

    def reads_as(self, other: Note) -> bool:
        """Whether it is a plan of the same table."""
        return (self.text, self.table) == (other.text, other.table)

    def receipts(self) -> list[Receipt]:
        """What task attempts have left of the plan so far."""
        return [Receipt.of(attempt, text) for attempt, text in self.source().receipts(Plan.of(self.plan))]

    def source(self) -> Source:
        """The source, in the driver's own process."""
        return Source.load(self.text, self.name)
