"""Acts that move the names of columns: away and back, to another column, to another type, within a column.

A run may come in the middle of an act, where a column of the queries is missing.
"""

from hypothesis import strategies as st

RUN = "a run"
"""Stands in an act where the tables are run."""
Act = tuple[str, ...]


def moves(group: str, number: str, wide: str) -> st.SearchStrategy[Act]:
    """Acts on the columns g and v and the field n.x of a source whose columns are mapped."""
    column = st.sampled_from([("g", group, "'b'"), ("v", number, "7"), ("v", number, "7"), ("n.x", "INT", "4")])
    return st.one_of(
        st.builds(_away_and_back, column, _between()),
        st.builds(_taken, column, _between(), st.sampled_from(["both", "former", "new"])),
        st.builds(_swapped, column, _between(), _between(), twice=st.booleans()),
        st.builds(_anew, column, st.sampled_from(["", "", "", "STRING", "SMALLINT", "BIGINT", wide]), _between()),
        st.tuples(_between(), _restored()).map(lambda parts: (*parts[0], parts[1])),
        st.tuples(
            st.sampled_from(["ALTER COLUMN v FIRST", "ALTER COLUMN g AFTER n", "ALTER COLUMN n.y FIRST"]).map(_alter)
        ),
        st.tuples(
            st.sampled_from(["g TO G", "v TO V", "n.x TO X"]).map(lambda names: _alter(f"RENAME COLUMN {names}"))
        ),
    )


def edits() -> st.SearchStrategy[Act]:
    """Acts on the tables that follow the source, by somebody else; the source changes afterwards, so that runs look."""

    def of(name: str, acts: Act) -> Act:
        return *(RUN if act is RUN else _alter(act.format(name), "{made}") for act in acts), touched

    away, back, drop, add, rest = (
        "RENAME COLUMN {{{0}}} TO spare",
        "RENAME COLUMN spare TO {{{0}}}",
        "DROP COLUMN {{{0}}}",
        "ADD COLUMN {{{0}}} {{{0}_type}}",
        "DROP COLUMN spare",
    )
    swapped = "ADD COLUMN other {{{0}_type}}", away, "RENAME COLUMN other TO {{{0}}}", rest
    touched = "UPDATE {src} SET at = at + INTERVAL '1' HOUR WHERE v > 4 OR v IS NULL"
    acts = [(away, RUN, back), (away, back), (drop, add), (drop,), (away, add, rest), swapped]
    return st.builds(of, st.sampled_from(["first", "last"]), st.sampled_from(acts))


def steps_of(acts: list[Act]) -> list[Act]:
    """The statements before each run."""
    steps = list[list[str]]([[]])
    for statement in (each for act in acts for each in act):
        if statement is RUN:
            steps.append([])
        else:
            steps[-1].append(statement)
    return [tuple(step) for step in steps]


def _between() -> st.SearchStrategy[Act]:
    changed = [
        (),
        ("UPDATE {src} SET at = at + INTERVAL '1' DAY",),
        ("DELETE FROM {src} WHERE at IS NULL OR n IS NULL",),
    ]
    back = ("RESTORE TABLE {src} TO VERSION AS OF {before}",)
    return st.sampled_from([(), (), *((*each, RUN) for each in changed), (RUN, *changed[1]), *changed[1:], back])


def _restored() -> st.SearchStrategy[str]:
    return st.sampled_from(["before", "former"]).map(lambda at: f"RESTORE TABLE {{src}} TO VERSION AS OF {{{at}}}")


def _alter(what: str, table: str = "{src}") -> str:
    return f"ALTER TABLE {table} {what}"


Column = tuple[str, str, str]
"""A column or field, its type, and a value of it."""


def _rename(path: str, name: str) -> str:
    return _alter(f"RENAME COLUMN {path} TO {name}")


def _beside(path: str, name: str) -> str:
    return "n." * path.startswith("n.") + name


def _away_and_back(column: Column, between: Act) -> Act:
    path = column[0]
    return _rename(path, "spare"), *between, _rename(_beside(path, "spare"), path.removeprefix("n."))


def _taken(column: Column, between: Act, stays: str) -> Act:
    """A new column has the name, and one of the two, or both, stay."""
    path, kind, value = column
    spare = _beside(path, "spare")
    begins = _rename(path, "spare"), _alter(f"ADD COLUMN {path} {kind}"), f"UPDATE {{src}} SET {path} = {value}"
    ends = {
        "both": (),
        "former": (_alter(f"DROP COLUMN {path}"), _rename(spare, path.removeprefix("n."))),
        "new": (_alter(f"DROP COLUMN {spare}"),),
    }
    return *begins[: 2 if between else 3], *between, *ends[stays]


def _swapped(column: Column, before: Act, between: Act, *, twice: bool) -> Act:
    path, kind, value = column
    name, spare, other = path.removeprefix("n."), _beside(path, "spare"), _beside(path, "other")
    swap = _rename(path, "spare"), _rename(other, name), _rename(spare, "other")
    filled = _alter(f"ADD COLUMN {other} {kind}"), f"UPDATE {{src}} SET {other} = {value}"
    return *filled, *before, *swap, *(between + swap if twice else ())


def _anew(column: Column, kind: str, between: Act) -> Act:
    return _alter(f"DROP COLUMN {column[0]}"), *between, _alter(f"ADD COLUMN {column[0]} {kind or column[1]}")
