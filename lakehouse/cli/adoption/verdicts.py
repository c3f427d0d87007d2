"""What becomes of each model of a folder, as decided by the code that also runs views."""

import re
from dataclasses import dataclass, replace
from enum import StrEnum
from graphlib import CycleError, TopologicalSorter

from lakehouse.cli.adoption.models import Folder, Model, NotMoved
from lakehouse.cli.adoption.taken_columns import TakenColumns
from lakehouse.delta.text import fold, literal, quote, quote_all
from lakehouse.errors.base import clause
from lakehouse.errors.views import ViewError
from lakehouse.views.adding import Added
from lakehouse.views.analysis import Analysis, ByKeys, TableFacts
from lakehouse.views.files.statement import query_of, read_statement
from lakehouse.views.query import names_in
from lakehouse.views.sql.look import look_through
from lakehouse.views.view_text import Reason, ViewText


class Becomes(StrEnum):
    """What becomes of a model."""

    BY_SUMS = "by sums"
    BY_KEYS = "by keys"
    INLINED = "inlined"
    WHOLE = "whole"
    NOT_MOVED = "not moved"


@dataclass(frozen=True, slots=True)
class ModelVerdict:
    """What becomes of a model.

    Args:
        model: The model.
        becomes: What becomes of it.
        why: Why it is not followed, or what is read in addition to the rows of keys; empty if neither.
        key: The key of its table.
        text: The text of its view file; empty if it has none.
    """

    model: Model | NotMoved
    becomes: Becomes
    why: str
    key: tuple[str, ...] = ()
    text: str = ""

    @property
    def name(self) -> str:
        """The name of the table."""
        return ".".join(self.model.name)


def judge(folder: Folder) -> tuple[list[ModelVerdict], dict[str, tuple[str, ...]]]:
    """What becomes of each model, and the other tables that the views read, with their keys."""
    judging = _Judging(folder)
    not_moved = [
        ModelVerdict(each, Becomes.NOT_MOVED, why)
        for each in folder.models
        if (why := each.why if isinstance(each, NotMoved) else judging.why_not(each))
    ]
    while circle := judging.circle:
        model = judging.models.pop(circle[0])
        del judging.named[circle[0]]
        not_moved.append(ModelVerdict(model, Becomes.NOT_MOVED, f"it reads its own rows: {' of '.join(circle)}"))
    judging.find_columns()
    judging.judge_all()
    while lost := judging.lost:
        judging.stored |= lost
        judging.judge_all()
    verdicts, kinds = [*not_moved, *judging.verdicts.values()], [*Becomes]
    moved = {each.name.lower() for each in verdicts if each.text}
    others = {table for name in moved for table in judging.reads[name]} - moved
    verdicts.sort(key=lambda each: (kinds.index(each.becomes), each.name))
    return verdicts, {name: judging.keys.get(name, ()) for name in sorted(others)}


class _Judging:
    """The models by the names of their tables in lower case, and what is known of all tables."""

    def __init__(self, folder: Folder) -> None:
        self.sources = {name.lower(): source for name, source in folder.sources.items()}
        self.keys = {name: source.key for name, source in self.sources.items() if source.key}
        self.models, self.named = dict[str, Model](), dict[str, tuple[str, ...]]()
        self.reads, self.schemas = dict[str, tuple[str, ...]](), dict[str, dict[str, str]]()
        self.verdicts, self.stored = dict[str, ModelVerdict](), set[str]()

    def why_not(self, model: Model) -> str | None:
        """Why a model cannot be moved, whatever its tables hold; None if it can be, and then the model is kept."""
        name = ".".join(model.name).lower()
        if name in self.models:
            return f"{self.models[name].file} makes it, too"
        try:
            reads = names_in(model.query)
        except ViewError as error:
            return _sentences(error)
        self.models[name], self.named[name] = model, reads
        if model.is_stored:
            self.stored.add(name)
        return None

    @property
    def order(self) -> list[str]:
        """The models, each after those that it reads."""
        return [name for name in TopologicalSorter(self.named).static_order() if name in self.models]

    @property
    def circle(self) -> list[str]:
        """Models that read each other, or one that reads itself; empty if there are none."""
        try:
            TopologicalSorter(self.named).prepare()
        except CycleError as error:
            return [*error.args[1]]
        return []

    @property
    def lost(self) -> set[str]:
        """The inlined models that no moved model reads."""
        moved = [name for name, each in self.verdicts.items() if each.becomes is not Becomes.NOT_MOVED]
        inlined = {name for name in moved if self.verdicts[name].becomes is Becomes.INLINED}
        return inlined - {table for name in moved for table in self.named[name]}

    def judge_all(self) -> None:
        """Judges the models, each after those that it reads."""
        for name in self.order:
            self.judge(name)

    def find_columns(self) -> None:
        """Finds the columns of all tables."""
        every = {table for reads in self.named.values() for table in reads} | self.models.keys()
        declared = {name: dict.fromkeys(source.columns) for name, source in self.sources.items()}
        columns = TakenColumns(declared, every - self.models.keys())
        for name in self.order:
            columns.add_model(name, self.models[name].query)
        for name in reversed(self.order):
            columns.demand(self.models[name].query, tuple(columns.tables[name]))
        self.schemas |= {name: dict.fromkeys(columns.tables.get(name) or ("_",), "") for name in every}

    def judge(self, name: str) -> None:
        """Keeps what becomes of a model, its columns and its key; the models that it reads have to be judged before."""
        model = self.models[name]
        try:
            model = self._with_inlined(model)
            self.reads[name] = reads = names_in(model.query)
            schemas = {each: self.schemas[each] for each in reads}
            facts = TableFacts(reads, keys={each: self.keys[each] for each in reads if each in self.keys})
            read = Analysis.of(ViewText(model.query), schemas, facts)
            if not isinstance(read.read, Reason):
                self.schemas[name] = {each.name: read.read.types.get(each.column, "") for each in read.read.outputs}
            has_columns = isinstance(read.read, Reason) or fold(model.key) <= fold(self.schemas[name])
            key = (model.key if has_columns else ()) or read.key or ()
            text = _text_of(model, key)
            query = query_of(text, read_statement(text))
            if not key and name not in self.stored and isinstance(Analysis.of(query, schemas, facts).verdict, ByKeys):
                why = "a part of the queries that read it, because it has no key, and is not stored today either"
                self.verdicts[name] = ModelVerdict(model, Becomes.INLINED, why)
                return
            analysis = Analysis.of(query, schemas, replace(facts, key=key))
            verdict, sums = analysis.verdict, analysis.sums
        except ViewError as error:
            self.verdicts[name] = ModelVerdict(model, Becomes.NOT_MOVED, _sentences(error))
            return
        by_keys = Becomes.BY_KEYS if isinstance(verdict, ByKeys) else Becomes.WHOLE
        self.keys |= {name: key} if key else {}
        self.verdicts[name] = (
            ModelVerdict(model, Becomes.BY_SUMS, "", key, text)
            if isinstance(sums, Added)
            else ModelVerdict(model, by_keys, verdict.more or "", key, text)
        )

    def _with_inlined(self, model: Model) -> Model:
        """The model, with the queries of the inlined models that it reads added to its own, as a WITH clause."""
        query, parts = model.query, dict[str, str]()
        for place, table in reversed([*look_through(query).tables.items()]):
            verdict = self.verdicts.get(table)
            if verdict is not None and verdict.becomes is Becomes.INLINED and isinstance(verdict.model, Model):
                part, alias = "__".join(verdict.model.name), "" if place.has_alias else f" AS {verdict.model.name[-1]}"
                parts[part] = verdict.model.query
                query = f"{query[: place.start]}{part}{alias}{query[place.end :]}"
        if not parts:
            return model
        words = [token for token in look_through(query).words.tokens[:2] if token.is_word("WITH", "RECURSIVE")]
        listed = ",\n".join(f"{part} AS (\n{text}\n)" for part, text in parts.items())
        rest = f",{query[words[-1].end :]}" if words else f"\n{query}"
        return replace(model, query=f"{' '.join(word.text for word in words) or 'WITH'} {listed}{rest}")


def _text_of(model: Model, key: tuple[str, ...]) -> str:
    """The text of a view file. A key that dbt declares refuses NULL; a key that follows from the query does not."""
    name = ".".join(part if re.fullmatch(r"[A-Za-z_]\w*", part) else quote(part) for part in model.name)
    lines = [f"CREATE MATERIALIZED VIEW {name}"]
    if key and key == model.key:
        lines[0] += f" (PRIMARY KEY ({quote_all(key)}))"
    elif key:
        lines.append(f"TBLPROPERTIES ('lakehouse.key' = {literal(', '.join(key))})")
    if model.comment:
        lines.append(f"COMMENT {literal(model.comment)}")
    return "\n".join([*lines, "AS", model.query, ""])


def _sentences(error: ViewError) -> str:
    return f"{clause(error.what)}. {error.remedy}"
