"""A generation: the line of a table's history in which the epochs of its commits count."""

import hashlib
import json
import re
from dataclasses import dataclass, replace
from enum import Enum
from typing import Self


class Beginning(Enum):
    """How a generation began; in the mark, the value precedes its version."""

    RESET = ""
    """The table was created (version 0), or a later version restored, emptied or replaced it."""
    CLEANED = "cleaned-"
    """Log cleanup removed the marks before a version, and the log has no epochs."""
    DAMAGED = "damaged-"
    """A version carries a damaged mark, and a user asked to go on."""
    REPLANNED = "begun-"
    """The first commit of the table was planned on another table; its attempt names the generation."""


_TEXT = re.compile(r"(cleaned-|damaged-|begun-|)([^~]+)(?:~([0-9]+))?")

_VERSION = re.compile(r"[0-9]+")


@dataclass(frozen=True, slots=True)
class Generation:
    """The line of history in which epochs count: the first commit of a table begins its first generation.

    Args:
        beginning: How it began.
        at: The version with which it began, or the attempt.
        renewed_at: The oldest version in the log when its marks and epochs of some partitions were found to be gone;
            None if they are there.
    """

    beginning: Beginning
    at: str
    renewed_at: int | None = None

    @classmethod
    def after(cls, version: int) -> Self:
        """The generation that a version began."""
        return cls(Beginning.RESET, str(version))

    @classmethod
    def parse(cls, text: str) -> Self:
        """The generation of a text in a mark.

        Raises:
            ValueError: No generation has this text.
        """
        match = _TEXT.fullmatch(text)
        if match is None or not (match[1] == Beginning.REPLANNED.value or _VERSION.fullmatch(match[2])):
            raise ValueError(f"no generation: {text[:120]!r}")
        return cls(Beginning(match[1]), match[2], None if match[3] is None else int(match[3]))

    @property
    def root(self) -> Self:
        """The generation before it was renewed."""
        return replace(self, renewed_at=None)

    def __str__(self) -> str:
        renewed = "" if self.renewed_at is None else f"~{self.renewed_at}"
        return f"{self.beginning.value}{self.at}{renewed}"


FIRST_GENERATION = Generation.after(0)


def application_id(asset: str, partitions: tuple[str, ...], generation: Generation) -> str:
    """Delta's `txnAppId` of an asset. Each partition (or range of partitions) and generation counts its own epochs."""
    match partitions:
        case ():
            slice_ = ""
        case (only,):
            slice_ = f"/{only}"
        case _:
            digest = hashlib.sha256(json.dumps(partitions).encode()).hexdigest()[:8]
            slice_ = f"/{partitions[0]}...{partitions[-1]}({len(partitions)}, {digest})"
    return f"{asset}{slice_}:{generation}"
