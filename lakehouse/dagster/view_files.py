"""`views_from`: a folder of SQL files, each one a view, as the assets of a code location."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from inspect import currentframe
from itertools import takewhile
from keyword import iskeyword
from pathlib import Path
from re import ASCII, sub
from typing import Any, TypeAlias, cast
from warnings import catch_warnings

import dagster as dg
from pyspark.sql import DataFrame

from lakehouse.dagster.code.view_texts import TEXT
from lakehouse.delta.policy import Policy
from lakehouse.delta.table import Table
from lakehouse.errors import DefinitionError
from lakehouse.errors.base import apart, clause, gathering
from lakehouse.errors.views import ViewError, shown
from lakehouse.read.changes import Changes
from lakehouse.views.files.query_file import calling_file, path_beside, text_of
from lakehouse.views.files.statement import Statement, name_of_view, query_of, read_statement
from lakehouse.views.input_refusals import refuse_other_parameters
from lakehouse.views.query import names_in
from lakehouse.views.sql.tokens import digest_of
from lakehouse.views.view_text import Origin, ViewText, view_error, with_place
from lakehouse.writes.view import View

Defined: TypeAlias = dg.AssetsDefinition | dg.AssetSpec

OWN = "lakehouse."
"""The prefix of the table properties that are meant for this library."""
SNAPSHOT, TOUCH, KEY, OWNS = "lakehouse.snapshot", "lakehouse.touch", "lakehouse.key", "lakehouse.owns"
_NO_INPUT = frozenset(
    [
        *("arg_dict", "conf", "config", "context", "input", "input_arg_dict", "meta", "output", "output_arg_dict"),
        *("bool", "dict", "float", "int", "str", "type"),
    ]
)
"""Names that Dagster allows for no input, in addition to Python's keywords."""


def views_from(
    folder: str | Path,
    *,
    group: str | None = None,
    owners: Sequence[str] | None = None,
    tags: Mapping[str, str] | None = None,
    automation_condition: dg.AutomationCondition[Any] | None = None,
    io_manager_key: str | None = None,
    specs: Iterable[Defined] = (),
) -> list[dg.AssetsDefinition]:
    """The views of a folder's `.sql` files, including those in its subfolders.

    Each file holds one `CREATE MATERIALIZED VIEW ... AS SELECT ...`. The name `a.b` stands for the asset key a/b, both
    there and in queries, where the case of letters does not count. Each table that the query names is an input whose
    changes the view follows; the tables that the table property 'lakehouse.snapshot' names are read as snapshots.

    A name that neither a file of the folder nor `specs` defines stands for the asset key in lower case. `incremental`
    and `validate` refuse the view if nothing in the code location defines that key.

    Args:
        folder: The folder; a path that is not absolute begins at the folder of the calling file.
        group: The group of all the assets. None: the group of a file in a subfolder is named after the subfolder, that
            of any other file after its schema (`gold` of `gold.cities`).
        owners: Their owners.
        tags: Their tags.
        automation_condition: When they are materialized, `automation()` for example.
        io_manager_key: The IO manager that writes their tables; "io_manager" if None.
        specs: Specs or assets of tables that queries name and that the folder does not make. They are needed only if an
            asset key has capital letters; the code location lists them as well.

    Raises:
        ViewError: A file is not a view, or a view can never be followed.
        DefinitionError: There is no such folder, or no file in it.
    """
    path = path_beside(folder, calling_file(currentframe()))
    files = sorted(path.rglob("*.sql"))
    if not files:
        problem = "has no file *.sql" if path.is_dir() else "is not a folder"
        raise DefinitionError(f"views_from({str(folder)!r}): {path} {problem}. Name the folder that holds the views.")
    views = _views_in(files, path)
    keys = _keys(views, specs)
    common: dict[str, Any] = {
        "owners": owners,
        "tags": tags,
        "automation_condition": automation_condition,
        "io_manager_key": io_manager_key,
    }
    return [view.asset(keys, {**common, "group_name": group or view.group}) for view in views]


def _views_in(files: Iterable[Path], folder: Path) -> "list[_FileView]":
    """The views in some files of a folder; if errors are gathered, without the views that are refused."""
    views = dict[str, _FileView]()
    for file in files:
        name = None
        with apart():
            text = text_of(file)
            name = name_of_view(text)
            view = _FileView.of(file, folder, text)
            if (other := views.get(view.name.lower())) is not None:
                what = f"{view.name} is the view of {shown(str(other.path))}, too"
                raise view.error("VIEW_FILE", what, "Give each view a name of its own.", view.name)
            views[view.name.lower()] = view
            continue
        gathered = gathering()
        if gathered is not None and name is not None:
            gathered.unread.add("/".join(name).lower())
        elif gathered is not None:
            gathered.hides_more = True
    return list(views.values())


def _keys(views: "Sequence[_FileView]", specs: Iterable[Defined]) -> dict[str, dg.AssetKey]:
    """The asset keys, by the lower-case names that queries use for them."""
    keys = {view.name.lower(): view.key for view in views}
    named = {name for view in views for name in view.query.inputs}
    for spec in specs:
        for key in [spec.key] if isinstance(spec, dg.AssetSpec) else spec.keys:
            name = ".".join(key.path).lower()
            other = keys.setdefault(name, key)
            if other != key and name in named:
                raise DefinitionError(
                    f"A view reads {name}, which may be '{other.to_user_string()}' or '{key.to_user_string()}': a "
                    f"query names tables in any case, and with dots. Rename one of the two assets."
                )
    return keys


@dataclass(frozen=True, slots=True)
class _FileView:
    """A file that holds a view."""

    path: Path
    subfolder: str
    text: str
    statement: Statement
    query: ViewText
    snapshots: frozenset[str]
    table: Table

    @classmethod
    def of(cls, path: Path, folder: Path, text: str) -> "_FileView":
        """The view that a file holds.

        Raises:
            ViewError: The file is not a view, or is a view that can never be followed.
        """
        file = str(path)
        statement = read_statement(text, file)
        query = query_of(text, statement, file)
        try:
            query = replace(query, inputs=_inputs(names_in(query.text)))
        except ViewError as error:
            raise with_place(error, query.origin, "/".join(statement.name)) from error.__cause__
        properties = statement.properties
        query = replace(query, touch=_names_listed(properties.get(TOUCH, "")))
        snapshots = frozenset(_names_listed(properties.get(SNAPSHOT, "").lower()))
        subfolder = "_".join(path.parent.relative_to(folder).parts)
        view = cls(path, subfolder, text, statement, query, snapshots, _table(text, statement, file))
        view._refuse()
        return view

    @property
    def name(self) -> str:
        return ".".join(self.statement.name)

    @property
    def group(self) -> str | None:
        """The group of its asset: its subfolder, else its schema; None if it has neither."""
        return sub(r"\W", "_", self.subfolder or "_".join(self.statement.name[:-1]), flags=ASCII) or None

    @property
    def key(self) -> dg.AssetKey:
        return dg.AssetKey(list(self.statement.name))

    def error(self, code: str, what: str, remedy: str, words: str) -> ViewError:
        """The refusal of the view, located at some words of the file."""
        return view_error(code, what, remedy, self.text, max(0, self.text.find(words)), Origin(str(self.path)))

    def _refuse(self) -> None:
        """Refuses what the statement alone shows to be impossible."""
        tables = self.query.inputs
        if self.name.lower() in tables:
            raise self.error(
                "VIEW_SELF", "the view reads itself", "Name the tables that it is made of.", self.query.text
            )
        refuse_other_parameters(self.query, self.name)
        for table in self.snapshots - tables.keys():
            remedy = f"Name tables of the query: {', '.join(tables)}."
            raise self.error("VIEW_HEAD", f"{SNAPSHOT} names {table}, which the query does not", remedy, SNAPSHOT)
        for name in self.statement.properties:
            if name.lower().startswith(OWN) and name not in (SNAPSHOT, TOUCH, KEY, OWNS):
                remedy = f"The properties of this kind are {SNAPSHOT}, {TOUCH}, {KEY} and {OWNS}."
                raise self.error("VIEW_HEAD", f"{name} means nothing", remedy, name)

    def asset(self, keys: Mapping[str, dg.AssetKey], common: Mapping[str, Any]) -> dg.AssetsDefinition:
        """The asset of the view."""
        text = self.query

        def view(**inputs: Any) -> View:
            return View(text)

        setattr(view, TEXT, text)
        ins = {
            name: dg.AssetIn(
                key=keys.get(table, dg.AssetKey(table.split("."))),
                dagster_type=DataFrame if table in self.snapshots else Changes,
            )
            for table, name in text.inputs.items()
        }
        make: Any = dg.asset  # its overloads do not accept `**common`
        made = make(
            key=self.key,
            ins=ins,
            description=self.statement.comment or _opening_comment(self.text),
            metadata={**self.table, **self._shown()},
            code_version=self._code_version(),
            kinds={"sql", "deltalake"},
            **common,
        )
        return cast("dg.AssetsDefinition", made(view))

    def _code_version(self) -> str:
        """A digest of what decides the rows: the query, the declared columns, and which tables are snapshots."""
        names = {column.name.lower(): column.type for column in self.query.columns}
        head = [(name, kind, name in self.query.required) for name, kind in names.items()]
        return digest_of(self.query.text, {"columns": head, "snapshots": sorted(self.snapshots)})

    def _shown(self) -> dict[str, Any]:
        """What Dagster shows with the table: the query, the file, and the columns if the head has all their types."""
        shown: dict[str, Any] = {
            "query": dg.MetadataValue.md(f"```sql\n{self.query.text}\n```"),
            "dagster/code_references": _reference(self.path),
        }
        columns = self.statement.columns
        if columns and all(column.type is not None for column in columns):
            shown["dagster/column_schema"] = dg.TableSchema(
                [dg.TableColumn(column.name, str(column.type).lower(), column.comment) for column in columns]
            )
        return shown


def _table(text: str, statement: Statement, file: str) -> Table:
    """The table that the head of a file declares."""
    try:
        return Table(
            key=statement.key or _names_listed(statement.properties.get(KEY, "")),
            partition_by=statement.partitioned_by,
            cluster_by=statement.clustered_by,
            properties={name: value for name, value in statement.properties.items() if not name.startswith(OWN)},
            columns={column.name: column.comment for column in statement.columns if column.comment is not None},
            policy=Policy(refresh=statement.refresh),
            expect=statement.expectations,
            owns=statement.properties.get(OWNS),
        )
    except ValueError as error:
        what, remedy = clause(str(error)), "Correct the head of the statement."
        place = max(0, text.find(statement.name[-1]))
        raise view_error("VIEW_HEAD", what, remedy, text, place, Origin(file)) from error


def _opening_comment(text: str) -> str | None:
    """The lines of comment before a statement, which Dagster shows as Markdown."""
    lines = takewhile(lambda line: line.startswith("--"), text.lstrip().splitlines())
    return "\n".join(line.lstrip("-").removeprefix(" ") for line in lines).strip() or None


def _reference(path: Path) -> dg.CodeReferencesMetadataValue:
    """A link to a file. Dagster calls such links beta; nothing here depends on them."""
    with catch_warnings(action="ignore", category=dg.BetaWarning):
        reference = dg.LocalFileCodeReference(file_path=str(path), label=shown(str(path)))
        return dg.CodeReferencesMetadataValue(code_references=[reference])


def _names_listed(names: str) -> tuple[str, ...]:
    """Names that a property lists, separated by commas."""
    return tuple(name.strip() for name in names.split(",") if name.strip())


def _inputs(tables: Iterable[str]) -> dict[str, str]:
    """An input name for each table, unique and one that Dagster allows."""
    inputs = dict[str, str]()
    for table in tables:
        name = sub(r"\W", "_", table.replace(".", "__"), flags=ASCII)
        while name in _NO_INPUT or iskeyword(name) or name in inputs.values():
            name += "_"
        inputs[table] = name
    return inputs
