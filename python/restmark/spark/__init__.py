"""Tables of a restmark configuration in Spark: batch reads, checkpointed reads and streams."""

from .settle import Outcome, checkpointed, register, settle
from .source import RestmarkSource

__all__ = ["Outcome", "RestmarkSource", "checkpointed", "register", "settle"]
