"""Checks of the inputs of a view against the words of its text, before any table is read."""

from collections.abc import Collection

from lakehouse.delta.text import fold
from lakehouse.errors.views import ViewError
from lakehouse.views.query import refuse_parameters, refuse_values_of_the_run
from lakehouse.views.sql.look import look_through
from lakehouse.views.view_text import ViewText, with_place


def refuse_other_inputs(text: ViewText, inputs: Collection[str], asset: str) -> None:
    """Refuses a text that names other tables than its inputs.

    Raises:
        ViewError: A table is not an input, or an input is not in the text; or the words show that the text can never be
            followed.
    """
    try:
        look = look_through(text.text)
        for place, table in look.tables.items():
            if text.input_of(table) not in inputs:
                what, listed = f"{table} is not an input of the view", ", ".join(sorted(inputs))
                remedy = (
                    f"Name one of its inputs, {listed or 'of which it has none'}, or add {table} to the parameters of "
                    f"the function. An input of another IO manager is none: put it into a table first."
                )
                raise ViewError("VIEW_UNKNOWN_TABLE", what, look.words.of_place(place), remedy)
        named = {text.input_of(table) for table in look.tables.values()}
        for name in inputs:
            if name not in named:
                what = f"The text does not name the input {name}, so its changes would be read and lost"
                remedy = (
                    f"Name {name} in the text, or remove it from the parameters of the function. With deps= the asset "
                    f"only runs after it."
                )
                raise ViewError("VIEW_UNUSED_INPUT", what, None, remedy)
    except ViewError as error:
        raise with_place(error, text.origin, asset) from error.__cause__


def refuse_undefined(text: ViewText, table: str, asset: str, alike: str | None) -> None:
    """Refuses a table that a file names and that nothing in the code location defines.

    Raises:
        ViewError: Always.
    """
    key = table.replace(".", "/")
    parts = table.split(".")
    spec = repr(parts if len(parts) > 1 else table)
    remedy = f"Correct the name, or add a dg.AssetSpec({spec}) if another code location makes the table."
    if alike is not None:
        remedy = f"If {alike} is meant, give its asset or spec to views_from(..., specs=[...])."
    look, what = look_through(text.text), f"Nothing in this code location defines {key}"
    place = next(at for at, name in look.tables.items() if name == table)
    error = ViewError("VIEW_UNKNOWN_TABLE", what, look.words.of_place(place), remedy)
    raise with_place(error, text.origin, asset)


def refuse_split_keys(text: ViewText, key: tuple[str, ...], asset: str) -> None:
    """Refuses touch columns outside the key, for a table that checks how many rows a key has.

    Raises:
        ViewError: A touch column is not in the key.
    """
    if not fold(text.touch) <= fold(key):
        what = (
            f"Changes are followed by touch ({', '.join(text.touch)}), so a run may see only some of the rows of a key "
            f"({', '.join(key)}), and unique_key asks how many there are"
        )
        error = ViewError("VIEW_SPLIT_KEYS", what, None, "Leave touch out, or name columns of the key.")
        raise with_place(error, text.origin, asset)


def refuse_other_parameters(text: ViewText, asset: str) -> None:
    """Refuses a text whose named parameters do not match its arguments, or have values that depend on the run.

    Raises:
        ViewError: A parameter has no argument, or an argument has no parameter, or a value means the day of the run.
    """
    try:
        refuse_parameters(look_through(text.text), text.args)
        refuse_values_of_the_run(text.args)
    except ViewError as error:
        raise with_place(error, text.origin, asset) from error.__cause__


def computed_column(name: str) -> ViewError:
    """The refusal of a partition column that is computed."""
    return ViewError(
        "VIEW_PARTITION_COLUMN",
        f"The partition column {name} is computed, and the rows of a partition are found by a column",
        None,
        "Select a column of a table as it is, or give the computed column in an asset upstream.",
    )
