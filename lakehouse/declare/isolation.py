"""The isolation levels that a table can declare."""

from enum import Enum


class Isolation(Enum):
    """The levels that `delta.isolationLevel` names; open-source Delta creates tables with the first one only."""

    SERIALIZABLE = "Serializable"
    WRITE_SERIALIZABLE = "WriteSerializable"
