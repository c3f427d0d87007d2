"""What docs/benchmarks.md shows of each result, and the handwritten text about it."""

from dataclasses import dataclass

TITLES = {
    "small_step": "One changed row",
    "quiet": "No change upstream",
    "backlog": "Versions that wait",
    "orchestration": "Dagster's share",
    "served": "The small step through the server",
    "many_steps": "50 small steps in a row",
    "upkeep": "Upkeep of 10,000 small commits",
    "growth": "Growth",
    "scattered": "Scattered changes",
    "matrix": "Merge matrix",
    "layout": "Where the rows of a key lie",
    "graph": "A graph derived from TPC-H",
    "views": "Views",
    "medallion": "Fifteen views in three layers",
    "scd": "Type 2 of events",
    "history": "The history of a table",
    "extracts": "Full extracts",
    "archive": "Where the events of a key lie",
    "cliffs": "Cliffs",
    "key_types": "Keys of any type",
    "expectations": "Expectations",
    "hourly": "Fifty days of an hourly table",
    "contention": "Writers that meet",
    "stores": "On S3 and on a disk",
    "cold": "A process for every run",
    "live": "From source commit to gold",
    "agree": "Inputs that agree",
    "frozen": "A past that stays",
    "branch": "A branch",
    "scale": "What grows",
}
"""Every suite."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A section of the page: some rows of a result, one column of them as a picture, and what they mean.

    Args:
        curves: The beginnings of row names `beginning, share %: contestant`; instead of bars these rows are drawn as
            lines over their share.
    """

    title: str
    result: str
    rows: tuple[str, ...]
    drawn: str = "CPU s"
    curves: tuple[str, ...] = ()
    says: str


SUBJECTS = (
    Subject(
        title="One changed row of 10 million",
        result="small_step",
        rows=(
            "ours",
            "R1 foreachBatch, defaults",
            "R1t, our settings",
            "R2x, hint and key range too",
            "R4 delta-rs merge",
        ),
        drawn="wall s",
        says="delta-rs needs no JVM. Its tables had no deletion vectors.",
    ),
    Subject(
        title="One changed row, by the size of the table",
        result="growth_large",
        rows=tuple(f"{who} {rows}, 1 key" for rows in ("1,000,000", "100,000,000") for who in ("ours", "R2t")),
        says="The step costs what changed, not what the table holds.",
    ),
    Subject(
        title="1 % of 10 million rows, in every file",
        result="scattered",
        rows=("ours", "R2t, our settings", "R2x, hint and key range too", "R3 recompute"),
        says="R3 copies one table, and leaves its readers twenty million changes. Above 250,000 changed rows "
        "a step costs as much as R2t or more; inserts twice as much.",
    ),
    Subject(
        title="Type 2 of 10 million keys, events for 0.1 %",
        result="scd_large",
        rows=tuple(
            f"0.1 %, {who}"
            for who in ("ours", "union MERGE, with hints", "two MERGEs, with hints", "recompute", "union MERGE")
        ),
        says="Delta's documented `MERGE` (*union*) is wrong after late events. With events for 10 % of the keys "
        "a recompute takes half.",
    ),
    Subject(
        title="A refresh of five tables, derived from TPC-H",
        result="graph_large",
        rows=tuple(
            f"SF {scale}: {who}"
            for scale in ("0.1", "3")
            for who in ("ours, by hand", "ours, as views", "R3 recompute")
        ),
        says="SF 0.1 has 600,000 order lines, SF 3 has 18 million. **Small tables are cheaper to recompute**: the two "
        "meet at about four million lines.",
    ),
    Subject(
        title="Views of 10 million rows, by the share that changed",
        result="views",
        rows=tuple(
            f"{query}: {who}"
            for query in ("filter, 0.0001 %", "aggregate, 1 %", "join, 50 %")
            for who in ("view", "R3 recompute")
        ),
        curves=("filter", "join"),
        says="From 1 % on all rows replace the table. The aggregate's 100,000 rows are compared: readers see "
        "only what differs.",
    ),
    Subject(
        title="Eight writers of one table",
        result="contention",
        rows=tuple(f"other rows, 8 writers: {who}" for who in ("ours", "bare MERGE", "naive loop")),
        says="A bare `MERGE` is tried once, and 12 % of its steps come through.",
    ),
    Subject(
        title="A process for every run",
        result="cold",
        rows=(
            "first materialization: ours",
            "first materialization: pip quick start, R2",
            "next materialization: ours",
            "next materialization: pip quick start, R2",
        ),
        drawn="wall s",
        says="100,000 rows. Our next run finds its server.",
    ),
)
OTHERS = {
    "quiet": "0.02 s and no Spark job",
    "backlog": "50 in one step take 1.4 times the CPU of one",
    "orchestration": "one changed row through Dagster in 1.35 s",
    "served": "2.1 s while young, 1.6 s after forty steps",
    "many_steps": "the last is no dearer than the fifth",
    "matrix": "less CPU than each rival, but once (1.14)",
    "layout": "keys in any order take 2.4 CPU s a step instead of 1.8",
    "history": "0.1 % of 10 million rows: 14 CPU s, the documented `MERGE` with hints 19, overwrite 60",
    "extracts": "10 million rows take 53 CPU s, the documented `MERGE` 129, an overwrite 15",
    "hourly": "with upkeep a read takes a sixth of the CPU, a step under half",
    "upkeep": "one `OPTIMIZE`: a read takes 0.12 of the CPU, a step 0.43",
    "cliffs": "8,760 partitions, 10,000 waiting commits, 20,000 files: metadata takes seconds",
    "key_types": "instants, doubles and binaries cost what numbers do",
    "expectations": "no measurable CPU",
    "stores": "188 requests a step, the same CPU",
    "live": "three tables in 9 s",
    "agree": "no more jobs; a cut over 100 tables of 1,000 commits in a second",
    "medallion": "an hour of changes takes 1.5 times the CPU of a recompute: 36 jobs a view, not 11",
    "frozen": "1 % owned of 50 million: 0.03 of the CPU of all rows; by hand a third of that",
    "branch": "the first run takes 1.3 times production's",
}
"""Suites that have one line on the page."""
