"""Tables that are older than they are: times in the log and of the files are set back; nothing else is changed."""

import os
import re
from pathlib import Path

_TIMES = re.compile(r'("(?:timestamp|inCommitTimestamp|deletionTimestamp|modificationTime)":\s*)(\d{13})')


def set_back(table: Path, days: float) -> None:
    """Lets everything that is in a table have happened days earlier: what its commits say, and the times of files."""
    millis = int(days * 86_400_000)
    times = {file: (file.stat().st_atime, file.stat().st_mtime) for file in table.rglob("*")}
    for file in (table / "_delta_log").glob("*.json"):
        text = file.read_text("utf-8")
        file.write_text(_TIMES.sub(lambda match: f"{match[1]}{int(match[2]) - millis}", text), "utf-8")
    for file in (table / "_delta_log").glob(".*.crc"):
        file.unlink()
    for file, (read, written) in times.items():
        if file.exists():
            os.utime(file, (read - millis / 1000, written - millis / 1000))
