"""`lakehouse adopt`: what becomes of each model of a dbt project, or of a folder of SQL files, and its view files."""

import json
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from pathlib import Path

from lakehouse.cli.adoption.models import SPARKS, identifier, read_folder
from lakehouse.cli.adoption.verdicts import Becomes, judge
from lakehouse.cli.command import Answer, Command, UsageError, add_json
from lakehouse.delta.commit_info import count_of

_DEFINITIONS = """\
import dagster as dg

from lakehouse import DeltaIOManager, LocalSpark, incremental, views_from{more}

tables = [  # what the views read, and something else fills
{tables}]
manager = DeltaIOManager(spark=LocalSpark(root="lake"), root="lake")
assets = [*views_from("views"), *tables]
defs = incremental(dg.Definitions(assets=assets, resources={{"io_manager": manager}}))
"""


def _add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("folder", metavar="PATH", type=Path, help="a dbt project, or a folder of CREATE ... AS files")
    parser.add_argument("--to", metavar="FOLDER", type=Path, default=Path("adopted"), help="where files are written")
    parser.add_argument(
        "--dialect", metavar="NAME", help="whose SQL it is, as sqlglot calls it: snowflake, duckdb, ..."
    )
    parser.add_argument("--dry-run", action="store_true", help="print the report, and write nothing")
    add_json(parser)


def _run(given: Namespace) -> Answer:
    folder = read_folder(given.folder, given.dialect)
    verdicts, tables = judge(folder)
    files = {Path("views", *map(identifier, each.model.name)): each.text for each in verdicts if each.text}
    files = {file.with_suffix(".sql"): text for file, text in files.items()}
    if files:
        files[Path("definitions.py")] = _definitions(tables)
    if not given.dry_run:
        _write(given.to, files)
    counts = {kind: sum(each.becomes is kind for each in verdicts) for kind in Becomes}
    spoken = "Spark's" if folder.dialect in SPARKS else f"{folder.dialect}'s, and is written as Spark's"
    lines = [
        *(f"{each.becomes:<9}  {each.name}{': ' if each.why else ''}{each.why}" for each in verdicts),
        "",
        f"{count_of(len(verdicts), 'model')}: {', '.join(f'{n} {kind}' for kind, n in counts.items() if n)}.",
        f"Their SQL is {spoken}. Tables that something else fills: {', '.join(tables)}.",
        "Nothing is written." if given.dry_run else f"Written to {given.to}: {count_of(len(files), 'file')}.",
    ]
    models = [
        {"model": each.name, "file": each.model.file, "becomes": each.becomes, "why": each.why, "key": list(each.key)}
        for each in verdicts
    ]
    written = [] if given.dry_run else [str(given.to / file) for file in files]
    return Answer(
        {"dialect": folder.dialect, "models": models, "tables": list(tables), "files": written}, "\n".join(lines)
    )


def _definitions(tables: Mapping[str, tuple[str, ...]]) -> str:
    """The definitions of the views, with a spec for each table that they read and do not make."""
    keys = {name: f", metadata=Table(key={json.dumps(key)})" if key else "" for name, key in tables.items()}
    specs = [f"dg.AssetSpec({json.dumps(name.split('.'))}{key})" for name, key in keys.items()]
    more = ", Table" if any(tables.values()) else ""
    return _DEFINITIONS.format(tables="".join(f"    {spec},\n" for spec in specs), more=more)


def _write(to: Path, files: Mapping[Path, str]) -> None:
    """Writes all files, or none if one of them exists already."""
    if existing := [str(to / file) for file in files if (to / file).exists()]:
        raise UsageError(f"{existing[0]} is there already, and nothing was written. Name another folder with --to.")
    for file, text in files.items():
        (to / file).parent.mkdir(parents=True, exist_ok=True)
        (to / file).write_text(text, encoding="utf-8")


ADOPT = Command(_add_arguments, _run)
