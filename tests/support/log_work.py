"""Counts the work of reading logs in numbers that do not depend on the machine."""

from collections import Counter

import pytest
from deltalake import DeltaTable

from lakehouse.delta import log_files
from lakehouse.delta.log_files import LocalFiles


def count_log_work(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How many tables are opened, and how many files of logs are read."""
    counter, lines = Counter[str](), LocalFiles.lines

    class CountedTable(DeltaTable):
        def __init__(self, *args: object, **options: object) -> None:
            counter["opened"] += 1
            super().__init__(*args, **options)

    def read(self: LocalFiles, name: str):
        counter["files"] += 1
        return lines(self, name)

    monkeypatch.setattr(log_files, "DeltaTable", CountedTable)
    monkeypatch.setattr(LocalFiles, "lines", read)
    return counter
