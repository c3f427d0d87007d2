"""The models of a folder as queries of Spark: of a dbt project, or of SQL files with `CREATE ... AS`."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import sqlglot
import yaml
from sqlglot import exp
from sqlglot.errors import ErrorLevel, SqlglotError
from sqlglot.tokenizer_core import TokenType

from lakehouse.cli.adoption.jinja import MACRO, Templates, UnrenderedError
from lakehouse.cli.command import UsageError
from lakehouse.views.functions import CALLABLE, OF_THE_RUN

SPARKS = ("spark", "databricks")
"""The dialects whose queries stay as they are."""


@dataclass(frozen=True, slots=True)
class Model:
    """A query that makes a table.

    Args:
        name: The parts of the table's name, which are its asset key.
        file: The file that holds it, relative to the folder.
        query: The query in Spark's SQL.
        key: The columns that dbt declares as its unique key; empty if there are none.
        comment: A description of the table; empty if there is none.
        is_stored: Whether the rows of the table are stored today.
    """

    name: tuple[str, ...]
    file: str
    query: str
    key: tuple[str, ...] = ()
    comment: str = ""
    is_stored: bool = True


@dataclass(frozen=True, slots=True)
class NotMoved:
    """A model for which no view file is made, and why, as a clause."""

    name: tuple[str, ...]
    file: str
    why: str


@dataclass(frozen=True, slots=True)
class SourceFacts:
    """What is declared of a table that something else fills: all or some of its columns, and its key."""

    columns: tuple[str, ...]
    key: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Folder:
    """The dialect that a folder is written in, its models, and the sources that it declares, by name."""

    dialect: str
    models: tuple[Model | NotMoved, ...]
    sources: Mapping[str, SourceFacts]


class _NotMovedError(Exception):
    """Why no view file is made for a model, as a clause."""


def read_folder(folder: Path, dialect: str | None) -> Folder:
    """The models of a folder. A given dialect overrides the one that the folder names.

    Raises:
        UsageError: The folder holds no models, or sqlglot does not know the dialect.
    """
    if (folder / "dbt_project.yml").is_file():
        read = _DbtProject(folder, _yaml(folder / "dbt_project.yml")).read(dialect)
    else:
        dialect = _require_dialect(dialect or "spark")
        files = sorted(folder.rglob("*.sql"))
        read = Folder(dialect, tuple(each for file in files for each in _models_in(file, folder, dialect)), {})
    if not read.models:
        raise UsageError(f"{folder} holds neither a dbt_project.yml with models nor a file *.sql.")
    return read


def _require_dialect(dialect: str) -> str:
    if sqlglot.Dialect.get(dialect) is None:
        raise UsageError(f"sqlglot knows no dialect {dialect}. Name one with --dialect, such as snowflake.")
    return dialect


def _models_in(file: Path, folder: Path, dialect: str) -> Iterator[Model | NotMoved]:
    """The tables and views that the statements of a SQL file create."""
    path = str(file.relative_to(folder))
    try:
        text = file.read_text("utf-8-sig")
        tokens = sqlglot.tokenize(text, read=dialect)
        ends = [at for at, token in enumerate(tokens) if token.token_type is TokenType.SEMICOLON]
        for begin, end in zip([0, *(end + 1 for end in ends)], [*ends, len(tokens)], strict=True):
            if begin < end:
                yield _model_of(text[tokens[begin].start : tokens[end - 1].end + 1], path, dialect)
    except (SqlglotError, UnicodeDecodeError) as error:
        yield NotMoved((Path(path).stem,), path, _first_line(error))


def _model_of(statement: str, file: str, dialect: str) -> Model | NotMoved:
    """The table or view that a statement creates."""
    try:
        tree = sqlglot.parse_one(statement, read=dialect)
        table = tree.find(exp.Table)
        if not isinstance(tree, exp.Create) or not isinstance(tree.expression, exp.Query) or table is None:
            raise _NotMovedError(f"{' '.join(statement.split()[:3])} ... makes no table of a query")
        if isinstance(tree.this, exp.Schema):
            raise _NotMovedError("it names its columns before the query: name them in the query")
        begin = re.search(r"\bAS\s+(?=\(|SELECT\b|WITH\b|FROM\b|VALUES\b)", statement, re.IGNORECASE)
        query = statement[begin.end() :] if begin is not None else tree.expression.sql(dialect)
        name = tuple(part.name for part in table.parts)
        return Model(name, file, _in_spark(query, dialect), is_stored=tree.kind != "VIEW")
    except (_NotMovedError, SqlglotError) as why:
        return NotMoved((Path(file).stem,), file, _first_line(why))


def _in_spark(query: str, dialect: str) -> str:
    """A query in Spark's SQL."""
    if dialect in SPARKS:
        return query
    try:
        tree = sqlglot.parse_one(query, read=dialect)
        text = tree.sql("spark", pretty=True, unsupported_level=ErrorLevel.RAISE)
    except Exception as error:  # sqlglot raises all kinds of errors over SQL that it does not know
        raise _NotMovedError(f"Spark's SQL cannot say it: {_first_line(error)}") from error
    called = {call.name.lower() for call in sqlglot.parse_one(text, read="spark").find_all(exp.Anonymous)}
    if unknown := called - CALLABLE - OF_THE_RUN:
        raise _NotMovedError(f"Spark is not known to have the function {', '.join(sorted(unknown))} of {dialect}")
    return text


def _first_line(error: Exception) -> str:
    return re.sub(r"\x1b\[\d*m", "", str(error).strip().partition("\n")[0])


def _yaml(file: Path) -> dict[str, Any]:
    """The content of a YAML file; empty if there is no such file, or if it cannot be read."""
    try:
        return _mapping(yaml.safe_load(file.read_text("utf-8-sig")))
    except (OSError, yaml.YAMLError):
        return {}


def _mapping(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _entries(values: Any) -> list[dict[str, Any]]:
    """The mappings of a list that have a name."""
    listed = cast("list[Any]", values) if isinstance(values, list) else []
    return [each for each in map(_mapping, listed) if "name" in each]


_SNAPSHOT = re.compile(r"\{%-?\s*snapshot\s+(\w+)")
_OTHER_FILES = {
    ("model", "*.py"): "it is Python: write an asset",
    ("seed", "*.csv"): "",
    ("snapshot", "*.sql"): "it is a snapshot: write a History",
}
"""Files that hold no query, and why the models in them are not moved; a seed is a source."""
_STORED = ("table", "incremental", "materialized_view", "dynamic_table")
_NOT_STORED = ("view", "ephemeral")


@dataclass
class _DbtProject:
    """A dbt project, read from its files, and from its manifest if dbt has written one."""

    folder: Path
    project: dict[str, Any]
    sources: dict[str, SourceFacts] = field(default_factory=dict[str, SourceFacts])

    def read(self, dialect: str | None) -> Folder:
        self.name = str(self.project.get("name", self.folder.name))
        file = self.folder / "target" / "manifest.json"
        manifest: dict[str, Any] = json.loads(file.read_text("utf-8")) if file.is_file() else {}
        adapter = dialect or manifest.get("metadata", {}).get("adapter_type", "spark")
        self.nodes = {node["name"]: node for node in manifest.get("nodes", {}).values()}
        nodes = (*self.nodes.values(), *manifest.get("sources", {}).values())
        self.relations = {node["relation_name"]: node for node in nodes if node.get("relation_name")}
        self.names, self.properties = dict[str, tuple[str, ...]](), dict[str, dict[str, Any]]()
        models, not_moved = [*self._files("model", "*.sql")], list[NotMoved]()
        self.names |= {file.stem: self._name_of(file) for file in models}
        for (kind, ending), why in _OTHER_FILES.items():
            for file in self._files(kind, ending):
                text = file.read_text("utf-8-sig", errors="replace") if kind == "snapshot" else ""
                for name in _SNAPSHOT.findall(text) or [file.stem]:
                    self.names[name] = (*self._name_of(file)[:-1], identifier(name))
                    not_moved += [NotMoved(self.names[name], self._path(file), why)] if why else []
        for file in (*self._files("model", "*.yml"), *self._files("model", "*.yaml")):
            self._read_properties(_yaml(file))
        variables = _mapping(self.project.get("vars"))
        variables |= _mapping(variables.get(self.name))
        macros, packages = self._macros(manifest)
        self.templates = Templates(adapter, macros, packages, variables, self._ref, self._source)
        read = [self._model(file, _require_dialect(adapter)) for file in models]
        return Folder(adapter, (*read, *not_moved), self.sources)

    def _path(self, file: Path) -> str:
        return str(file.relative_to(self.folder))

    def _name_of(self, file: Path) -> tuple[str, ...]:
        """The name of a file's table: the folders below models/, or the project if there are none; then the file."""
        first, *above = file.relative_to(self.folder).parts[:-1]
        top = self.name if first == "models" else first
        return (*map(identifier, above or [top]), identifier(file.stem))

    def _files(self, kind: str, ending: str) -> Iterator[Path]:
        for below in self.project.get(f"{kind}-paths") or [f"{kind}s"]:
            yield from sorted((self.folder / below).rglob(ending))

    def _macros(self, manifest: Mapping[str, Any]) -> tuple[dict[str, str], frozenset[str]]:
        """The macros, where those of the project override the others, and the names of the packages."""
        given = manifest.get("macros", {}).values()
        folders = sorted((self.folder / "dbt_packages").glob("*"))
        packages = {_yaml(folder / "dbt_project.yml").get("name", folder.name) for folder in folders}
        below = [file for folder in folders for file in sorted((folder / "macros").rglob("*.sql"))]
        macros = {each["name"]: each["macro_sql"] for each in given}
        for file in (*below, *self._files("macro", "*.sql")):
            macros |= {each[1]: each[0] for each in MACRO.finditer(file.read_text("utf-8-sig", errors="replace"))}
        return macros, frozenset({self.name, *packages, *(each["package_name"] for each in given)})

    def _read_properties(self, settings: Mapping[str, Any]) -> None:
        """Keeps what a YAML file declares about models and sources."""
        self.properties |= {each["name"]: each for each in _entries(settings.get("models"))}
        for source in _entries(settings.get("sources")):
            for table in _entries(source.get("tables")):
                columns = tuple(str(each["name"]).lower() for each in _entries(table.get("columns")))
                self.sources[self._source(source["name"], table["name"])] = SourceFacts(columns, _key_in_tests(table))

    def _ref(self, *names: str, **version: Any) -> str:
        name, of = names[-1], version.get("v", version.get("version"))
        name = f"{name}_v{of}" if f"{name}_v{of}" in self.names else name
        return ".".join(self.names.get(name, ("models", identifier(name))))

    def _source(self, source: str, table: str) -> str:
        name = (identifier(source), identifier(table))
        return ".".join(("sources", *name) if name in self.names.values() else name)

    def _model(self, file: Path, dialect: str) -> Model | NotMoved:
        parts, path, properties = self._name_of(file), self._path(file), self.properties.get(file.stem, {})
        try:
            query, settings = self._render(file.stem, file.read_text("utf-8-sig"))
            config = {**self._config_of(file.stem, parts), **_mapping(properties.get("config")), **settings}
            if config.get("enabled") is False:
                raise _NotMovedError("it is disabled")
            if (kind := config.get("materialized", "view")) not in (*_STORED, *_NOT_STORED):
                raise _NotMovedError(f"it is materialized as {kind}")
            unique = config.get("unique_key") or ()
            key = (unique,) if isinstance(unique, str) else tuple(unique)
            comment = str(properties.get("description") or "").strip()
            comment = "" if "{{" in comment else comment  # it refers to a page of dbt's documentation
            key = key or _key_in_tests(properties)
            return Model(parts, path, _in_spark(query, dialect), key, comment, is_stored=kind in _STORED)
        except (UnrenderedError, _NotMovedError, UnicodeDecodeError) as why:
            return NotMoved(parts, path, _first_line(why))

    def _config_of(self, name: str, parts: tuple[str, ...]) -> dict[str, Any]:
        """A model's config in the manifest, else in the project, where the folder nearest to its file counts most."""
        if name in self.nodes:
            return self.nodes[name].get("config", {})
        config, below = dict[str, Any](), _mapping(self.project.get("models"))
        for part in (self.name, *parts):
            below = _mapping(next((each for name, each in below.items() if identifier(str(name)) == part), None))
            config |= {key.removeprefix("+"): value for key, value in below.items()}
        return config

    def _render(self, name: str, template: str) -> tuple[str, Mapping[str, Any]]:
        """A model's SQL and config; as dbt compiled it if only dbt can, unless rows of its table may decide it."""
        settings: Mapping[str, Any] = {}
        try:
            query, settings = self.templates.render(template, ".".join(self.names[name]))
        except UnrenderedError:
            node = self.nodes.get(name, {})
            query = node.get("compiled_code")
            if not query or node.get("config", {}).get("materialized") == "incremental":
                raise
            for relation in sorted(self.relations, key=len, reverse=True):  # one may begin with another
                node = self.relations[relation]
                is_source = node["resource_type"] == "source"
                table = self._source(node["source_name"], node["name"]) if is_source else self._ref(node["name"])
                query = query.replace(relation, table)
        return query.strip().rstrip("; \n"), settings


def identifier(text: str) -> str:
    """A text with _ for each character that a plain name cannot have."""
    return re.sub(r"\W", "_", text)


def _key_in_tests(properties: Mapping[str, Any]) -> tuple[str, ...]:
    """The key of a table by its tests: a column that is unique and not null, or a unique combination of columns."""
    for column in _entries(properties.get("columns")):
        if {"unique", "not_null"} <= _tests(column).keys():
            return (str(column["name"]),)
    for test, settings in _tests(properties).items():
        if test.rpartition(".")[2] == "unique_combination_of_columns":
            return tuple(_mapping(settings.get("arguments", settings)).get("combination_of_columns", ()))
    return ()


def _tests(properties: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The tests of a model or a column, by name, with their arguments."""
    tests = dict[str, dict[str, Any]]()
    for test in (*(properties.get("tests") or ()), *(properties.get("data_tests") or ())):
        tests |= {str(name): _mapping(given) for name, given in (_mapping(test) or {test: None}).items()}
    return tests
