"""Definitions that could never work."""

from collections.abc import Iterable

from lakehouse.errors.base import DefinitionError


class MissingKeyError(DefinitionError):
    """A write by key to a table that declares none."""

    def __init__(self, asset: str, write: str) -> None:
        self.asset, self.write = asset, write
        article = "an" if write[0] in "AEIOU" else "a"
        super().__init__(
            f"Asset '{asset}' returns {article} {write} but its table declares no key. Add metadata=Table(key=...)."
        )


class UnsupportedAnnotationError(DefinitionError):
    """An annotation that says neither how to read nor how to write."""

    def __init__(self, asset: str, where: str, annotation: str | None, allowed: Iterable[str]) -> None:
        self.asset, self.where, self.annotation, self.allowed = asset, where, annotation, tuple(allowed)
        super().__init__(f"Asset '{asset}' {_annotates(where, annotation)}. Use {' or '.join(self.allowed)}.")


def _annotates(where: str, annotation: str | None) -> str:
    if annotation is None:
        return f"does not annotate {where}, so nothing says how its table is read or written"
    return f"annotates {where} with {annotation}, which says nothing about a Delta table"


class PartitionColumnError(DefinitionError):
    """A partitioned asset whose partitions cannot be found in the table's columns."""

    def __init__(self, asset: str, problem: str) -> None:
        self.asset, self.problem = asset, problem
        super().__init__(f"Asset '{asset}' is partitioned, but {problem}")
