"""The definition that produced the rows of a position, as named parts in the mark (ADR 19).

A part is a short text, or the digest of a longer text. Parts are named, so that a run can say what differs.
"""

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, TypeAlias

from lakehouse.delta.expect import Expect
from lakehouse.delta.partition_keys import PartitionKey, Slice
from lakehouse.delta.table import Read, Table

Definition: TypeAlias = Mapping[str, str]
"""Parts by name; a part that would be empty is left out."""
LONGEST = 64
"""The most characters that a part may have, as JSON writes it; a longer text is replaced by its digest."""
FIELDS = 16
"""Up to this many fields of a config are parts of their own; the fields of a larger config are one part."""
_KEY, _PARTITION_BY, _PARTITIONS, _CONFIG, _READ = "key", "partition_by", "partitions", "config", "read "
_SESSION = "session"
"""Begins the parts about settings of the Spark session that decide rows; known once a run has started Spark."""
_INPUT, _RESOURCE = "input", "resource"
"""Begin the parts about what a run hands to the function: the source of an input, the value of a resource's field."""
_OWNS = "owns"
_EXPECT, _QUARANTINE = "expect", "quarantine"
"""Begin the parts about expectations, each with the condition of one: those that leave rows out, and those that put
rows into a quarantine. For a quarantine the name counts too, because its rows contain the name."""
DROPPED = "dropped "
"""Begins the part about a column that a history keeps although its source no longer has it."""
TRACK = "track"
"""The part that says which columns a history tracks; known once its asset has returned the write."""
_EACH = "\n"


def definition(
    table: Table,
    slice_: Slice | None,
    reads: Mapping[str, Read],
    config: Mapping[str, Any],
    ignored: Collection[str] = (),
    *,
    inputs: Mapping[str, str] | None = None,
    resources: Mapping[str, Any] | None = None,
) -> dict[str, str]:
    """The parts that decide which rows a position is about.

    Args:
        table: What the asset declares.
        slice_: The partitions that the run writes; None for all of the table.
        reads: The options of each source that is read as changes.
        config: The resolved config of the step.
        ignored: Fields of the config, and of resources, that decide no row.
        inputs: The source of each input.
        resources: The values of the resources that the function takes, each as `resource.field`. Neither these nor the
            inputs count if the asset reads no changes, because then each run computes all rows.
    """
    inputs, resources = (inputs or {}, resources or {}) if reads else ({}, {})
    parts = {
        _KEY: _columns(table.key_columns),
        _PARTITION_BY: _columns(table.partition_columns),
        _PARTITIONS: "" if slice_ is None else partitions(slice_),
        _OWNS: table.owns or "",
        **{_READ + source: _EACH.join(left_out(read)) for source, read in reads.items()},
        **_expectations(_EXPECT, [each for each in table.expectations if each.leaves_out and not each.quarantines]),
        **_expectations(_QUARANTINE, [each for each in table.expectations if each.quarantines]),
        **_digests(_CONFIG, config, ignored),
        **_digests(_RESOURCE, resources, ignored),
        **{f"{_INPUT} {short(name)}": source for name, source in inputs.items()},
    }
    return {name: short(text) for name, text in parts.items() if text}


def declares_owned(definition: Definition | None, owns: str) -> bool:
    """Whether the definition in a mark has this condition of owned rows."""
    return definition is not None and definition.get(_OWNS) == short(owns)


def why_redefined(before: Definition, now: Definition, *, has_keys: bool, ignored: Collection[str] = ()) -> str | None:
    """Why the key, partitions, owned rows, rows left out or config differ from a mark, as half a sentence; else None.

    What inputs leave out is compared by `read_in`, and what a history tracks by `refuse_other_shape` of its rows.
    """
    if has_keys:
        for part, words in ((_KEY, "key"), (_PARTITION_BY, "partition columns")):
            if before.get(part) != now.get(part):
                return f"its {words} changed from {before.get(part, 'none')} to {now.get(part, 'none')}"
    # A position of the whole table also holds for each partition if the asset has been partitioned since.
    if _PARTITIONS in before and before[_PARTITIONS] != now.get(_PARTITIONS):
        return f"its partition was {before[_PARTITIONS]} and is {now.get(_PARTITIONS, 'all of the table')}"
    if before.get(_OWNS) != now.get(_OWNS):
        return f"it owned {before.get(_OWNS, 'all rows')} and owns {now.get(_OWNS, 'all rows')}"
    conditions = _why_other_conditions(before, now)
    if conditions is not None:
        return conditions
    names = {*_parts_of(_CONFIG, before), *_parts_of(_CONFIG, now)} - _fields(_CONFIG, ignored)
    other = sorted(name for name in names if before.get(name) != now.get(name))
    return f"its {' and '.join(other)} had another value" if other else None


def why_handed_otherwise(before: Definition, now: Definition, ignored: Collection[str] = ()) -> str | None:
    """Which input has another source, or which resource another value, as half a sentence; None if none has.

    A part that one side lacks decides nothing: then the code of the function changed, or an earlier version wrote the
    mark. If the fields of its resources are separate parts on one side and one part on the other, any may have changed.
    """
    was, is_now = _parts_of(_INPUT, before), _parts_of(_INPUT, now)
    for name in sorted(was.keys() & is_now.keys()):
        if was[name] != is_now[name]:
            return f"its {name} was '{was[name]}' and is '{is_now[name]}'"
    was, is_now = _parts_of(_RESOURCE, before), _parts_of(_RESOURCE, now)
    if was and is_now and (_RESOURCE in was) != (_RESOURCE in is_now):
        return "its resources have more fields or fewer, so that one may have had another value"
    names = (was.keys() & is_now.keys()) - _fields(_RESOURCE, ignored)
    other = sorted(name for name in names if was[name] != is_now[name])
    return f"its {' and '.join(other)} had another value" if other else None


def session_of(definition_: Definition) -> dict[str, str]:
    """The parts about the session in which rows were computed."""
    return _parts_of(_SESSION, definition_)


def in_session(definition_: Definition, settings: Mapping[str, str]) -> Definition:
    """The definition with the settings of a session that decide rows, instead of those of another session."""
    others = {name: text for name, text in definition_.items() if name not in session_of(definition_)}
    return others | {f"{_SESSION} {name}": short(value) for name, value in settings.items()}


def why_other_session(before: Definition, now: Definition) -> str | None:
    """Which setting of the session had another value, as half a sentence; None if none had.

    A mark without such parts comes from an earlier version of this library, and is believed once.
    """
    was, is_now = session_of(before), session_of(now)
    other = sorted(name for name in {*was, *is_now} if was.get(name) != is_now.get(name)) if was else []
    values = [(was.get(name, "as Spark has it"), is_now.get(name, "as Spark has it")) for name in other]
    settings = [
        f"{name.removeprefix(_SESSION).strip()} was {before_} in its Spark session, and is {now_}"
        for name, (before_, now_) in zip(other, values, strict=True)
    ]
    return " and ".join(settings) or None


def _parts_of(begin: str, definition_: Definition) -> dict[str, str]:
    """The parts whose names begin with a word: one for each field, or one for all fields."""
    return {name: text for name, text in definition_.items() if name.split(" ", maxsplit=1)[0] == begin}


def left_out(read: Read) -> tuple[str, ...]:
    """What an input leaves out of its source, one text for each option; empty if the input reads all of it."""
    if read.is_whole:
        return ()
    at = read.start.isoformat() if isinstance(read.start, datetime) else str(read.start)
    start = () if at == "snapshot" else (f"start={at}",)
    named = (("exclude_operations", read.exclude_operations), ("exclude_metadata", read.exclude_metadata))
    return (*start, *(f"{name}={json.dumps(text)}" for name, texts in named for text in sorted(texts)))


def read_in(before: Definition, source: str, read: Read) -> str | None:
    """What the table left out of a source and the input no longer leaves out; None if there is nothing."""
    was = before.get(_READ + source, "")
    now = left_out(read)
    if not was or was == short(_EACH.join(now)) or all(option in now for option in was.split(_EACH)):
        return None
    return was.replace(_EACH, ", ")


def partial_sources(definition_: Definition) -> frozenset[str]:
    """The sources from which the inputs of a definition leave rows out."""
    return frozenset(part.removeprefix(_READ) for part in definition_ if part.startswith(_READ))


def partitions(slice_: Slice) -> str:
    """The windows or values of partitions: those of one partition in words, those of several as a digest."""
    texts = [", ".join(_of_column(key, column) for column in key.values) for key in slice_.partitions]
    return texts[0] if len(texts) == 1 else digest(sorted(texts))


def short(text: str) -> str:
    return text if len(json.dumps(text)) <= LONGEST + 2 else digest(text)


def digest(value: Any) -> str:
    """A short text that differs for different values."""
    return "#" + hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()[:16]


def _columns(columns: tuple[str, ...]) -> str:
    return ", ".join(sorted(column.lower() for column in columns))


def _expectations(begin: str, expectations: Sequence[Expect]) -> dict[str, str]:
    conditions = {each.check_name: each.condition for each in expectations}
    if len(conditions) > FIELDS:
        return {begin: digest(conditions)}
    return {f"{begin} {short(name)}": condition for name, condition in conditions.items()}


def _why_other_conditions(before: Definition, now: Definition) -> str | None:
    """Why other rows are left out, or put into the quarantine, as half a sentence; None if the same are."""
    for begin, what in ((_EXPECT, "other rows are left out"), (_QUARANTINE, "other rows are put into its quarantine")):
        was, is_now = (_parts_of(begin, of) for of in (before, now))
        if was == is_now or (begin == _EXPECT and set(was.values()) == set(is_now.values())):
            continue
        differing = sorted(name for name in {*was, *is_now} if was.get(name) != is_now.get(name))
        reasons = [
            _of_condition(name.removeprefix(begin).strip(), was.get(name), is_now.get(name)) for name in differing
        ]
        return f"{what}: {'; '.join(reasons)}"
    return None


def _of_condition(name: str, was: str | None, now: str | None) -> str:
    """What became of an expectation that leaves rows out."""
    called = f"the expectation {name}" if name else "the expectations"
    if was is None:
        return f"{called} ({now}) is new"
    return f"{called} ({was}) is gone" if now is None else f"{called} changed from {was} to {now}"


def _digests(begin: str, values: Mapping[str, Any], ignored: Collection[str]) -> dict[str, str]:
    """The parts for values by name. They are digests, because a config or a resource may hold secrets."""
    counted = {name: value for name, value in values.items() if name not in ignored}
    if len(counted) > FIELDS:
        return {begin: digest(counted)}
    return {f"{begin} {short(name)}": digest(value) for name, value in counted.items()}


def _fields(begin: str, names: Collection[str]) -> set[str]:
    """The names of the parts of fields."""
    return {f"{begin} {short(name)}" for name in names}


def _of_column(key: PartitionKey, column: str) -> str:
    window = key.windows.get(column)
    if window is None:
        return f"{column.lower()}={key.values[column]}"
    return f"{column.lower()} {_time(window.start)}/{_time(window.end)}"


def _time(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%MZ") if at.tzinfo is not None else at.strftime("%Y-%m-%dT%H:%M")
