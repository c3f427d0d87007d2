"""A table kept from full extracts, in which a thousandth of the rows differ from the table's rows."""

from collections.abc import Sequence
from pathlib import Path

from benchmarks.contestants.by_hand import Recompute
from benchmarks.contestants.extracts import Extracts, SyncMerge
from benchmarks.harness import data, race, report
from benchmarks.harness.data import KEY, Pair, name
from benchmarks.harness.lab import Lab
from benchmarks.harness.race import Contestant
from benchmarks.harness.report import Goal, Result
from benchmarks.suites.scd import entered

ROWS, LARGE = 1_000_000, 10_000_000
COLUMNS = 6
OURS, MERGE, MERGE_BEST, OVERWRITE = "ours", "MERGE", "MERGE of what differs", "overwrite"


def run(lab: Lab) -> Result:
    count = lab.rows(LARGE if lab.large else ROWS)
    contestants: Sequence[Contestant] = [
        Extracts(lab.ours(), OURS),
        Recompute(lab.ours(), OVERWRITE),
        SyncMerge(lab.ours(), MERGE),
        SyncMerge(lab.ours(), MERGE_BEST, expert=True),
    ]
    with lab.room() as room:
        entries = entered(built(lab, count), contestants, room)

        def change(source: Path, turn: int) -> None:
            """One row in a thousand gets another value; one in twenty thousand is deleted, and as many are inserted."""
            data.change(lab.spark, source, f"{KEY} % 1000 = {turn}")
            lab.spark.sql(f"DELETE FROM {name(source)} WHERE {KEY} % 20000 = {500 + turn}").collect()
            new = f"-1 - {KEY} - {turn} * {count} AS {KEY}, * EXCEPT ({KEY})"
            some = f"{KEY} >= 0 AND {KEY} % 20000 = {600 + turn}"
            lab.spark.sql(f"INSERT INTO {name(source)} SELECT {new} FROM {name(source)} WHERE {some}").collect()

        tallies = race.fresh(lab.meter, entries, change, lab.rounds, room)
    cpu = {who: tally.cost.cpu for who, tally in tallies.items()}
    written = {who: tally.cost.written for who, tally in tallies.items()}
    return Result(
        "extracts_large" if lab.large else "extracts",
        f"A full extract of {count:,} rows",
        "Six columns. 0.1 % of the rows have another value, all over the files, and of 20,000 rows one is gone and one "
        f"is new; each run on a fresh clone of the tables. *{MERGE}* is Delta's documented MERGE that also deletes "
        f"what the source lacks; *{MERGE_BEST}* updates a row only if a column differs. *{OVERWRITE}* writes the "
        "extract as it is, so that readers of the table's feed see every row deleted and inserted.",
        report.COLUMNS,
        [report.row(who, tally) for who, tally in tallies.items()],
        [
            Goal(f"{what} of a Snapshot against {who}", f"{figures[OURS] / figures[who]:.2g}x", None)
            for what, figures in (("CPU", cpu), ("bytes written", written))
            for who in (OVERWRITE, MERGE, MERGE_BEST)
        ],
    )


def built(lab: Lab, count: int) -> Path:
    """A state table, and its copy as made by the first run of an asset."""
    path = data.cache() / f"extracts-{count}"
    if not path.exists():
        state = data.built(lab.spark, count, COLUMNS)
        with data.made(path) as scratch:
            data.clone(state, scratch / "source")
            Extracts(lab.ours()).step(Pair(scratch))
    return path
