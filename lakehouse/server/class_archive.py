"""The server's classes, loaded and verified once: an archive that every later JVM maps into memory.

`lakehouse spark warm` makes it. Half of a server's start, and a part of each first statement, goes into loading ten
thousand classes. An archive is tried and never trusted: a JVM that finds its Java or its jars changed ignores it,
and a server without one only starts more slowly.
Source: Java's class-data sharing (`-Xshare` and `-XX:SharedArchiveFile` in the documentation of `java`).
"""

import subprocess
import tempfile
from pathlib import Path

from pyspark.errors import PySparkException

from lakehouse.errors import LakehouseError
from lakehouse.server.connect import session_on
from lakehouse.server.jvm import class_archive, java, server_command
from lakehouse.server.lifecycle import Server, stop
from lakehouse.server.settings import local_settings

_ONCE = "-XX:TieredStopAtLevel=1"  # for a JVM that ends before better code would pay off

# What a run asks of Spark: a table with a feed, its changes, groups of them, both ways to write rows.
_STATEMENTS = (
    "CREATE TABLE {t} (id BIGINT, v STRING) USING delta TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')",
    "INSERT INTO {t} SELECT id, string(id) FROM range(100)",
    """MERGE INTO {t} t USING (SELECT 1L AS id, 'x' AS v) s ON t.id = s.id
    WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *""",
    "INSERT INTO {t} REPLACE WHERE id = 2 SELECT 2L, max(v) FROM {t}",
    "DESCRIBE HISTORY {t}",
)


def make_archive() -> str | None:
    """Makes the archive of the classes that a small run loads; None on success, else what failed."""
    program = java()
    if program is None:
        return "There is no Java whose classes could be archived."
    wanted = class_archive(program)
    wanted.parent.mkdir(exist_ok=True)
    # Next to the target, so that the archive appears whole or not at all.
    with tempfile.TemporaryDirectory(dir=wanted.parent) as scratch:
        listed, made = Path(scratch, "classes"), Path(scratch, wanted.name)
        try:
            _list(Path(scratch, "lake"), listed)
            problem = _dump(program, Path(scratch), listed, made)
        except (LakehouseError, PySparkException, OSError, subprocess.SubprocessError) as error:
            problem = str(error)
        if not made.is_file():
            return f"The server's classes could not be archived, so it starts more slowly: {problem}"
        made.replace(wanted)
    return None


def _list(root: Path, listed: Path) -> None:
    """Runs a server once, and has its JVM list the classes that it loads."""
    settings = local_settings(root)
    settings["spark.driver.extraJavaOptions"] += f' {_ONCE} "-XX:DumpLoadedClassList={listed}"'
    session = session_on(Server(root, settings, idle=60))
    table = f"delta.`{root / 'table'}`"
    for statement in _STATEMENTS:
        session.sql(statement.format(t=table)).collect()
    feed = session.read.format("delta").options(readChangeFeed="true", startingVersion="1").load(str(root / "table"))
    feed.groupBy("id", "_change_type").count().collect()
    stop(root, now=True)


def _dump(program: str, root: Path, listed: Path, made: Path) -> str:
    options = [_ONCE, "-Xshare:dump", f"-XX:SharedClassListFile={listed}", f"-XX:SharedArchiveFile={made}"]
    line = [part for part in server_command(program, local_settings(root)) if "SharedArchiveFile" not in part]
    answer = subprocess.run([program, *options, *line[1:]], capture_output=True, text=True, timeout=600, check=False)  # noqa: S603
    return "\n".join((answer.stdout + answer.stderr).splitlines()[-10:])
