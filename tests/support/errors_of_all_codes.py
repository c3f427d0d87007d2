"""One error of each code, built from the annotations of its constructor: each text is `<name of the parameter>`."""

import inspect
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

from lakehouse import errors
from lakehouse.errors import LakehouseError, ViewError

CLASSES = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, LakehouseError)]
VALUES: Mapping[str, tuple[Any, ...]] = {"rule": ("NULL_KEY", "TWO_UPSERTS"), "partitions": (("<day 1>", "<day 2>"),)}
"""Values for the parameters whose annotations do not show what they take."""


def built() -> Iterator[tuple[LakehouseError, dict[str, Any]]]:
    """Each error with the arguments of its constructor; a parameter of a closed set takes each of its values."""
    for kind in CLASSES:
        constructors = [getattr(kind, name) for name, it in vars(kind).items() if isinstance(it, classmethod)]
        if "__init__" in vars(kind) and kind not in (LakehouseError, ViewError):  # their code is an argument
            constructors.append(kind)
        for build in constructors:
            parameters = inspect.signature(build).parameters
            hints = get_type_hints(kind.__init__ if build is kind else inspect.unwrap(build.__func__))
            names = list(parameters)
            for values in product(*(VALUES.get(name) or _values(name, hints[name]) for name in names)):
                told = dict(zip(names, values, strict=True))
                keywords = {n: v for n, v in told.items() if parameters[n].kind is inspect.Parameter.KEYWORD_ONLY}
                yield build(*(v for n, v in told.items() if n not in keywords), **keywords), told


def _values(name: str, annotation: Any) -> tuple[Any, ...]:
    """Values of an annotation: all values of a closed set, otherwise a single one."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if annotation is bool:
        return (False, True)
    if origin is Literal:
        return arguments
    if type(None) in arguments:
        return (None, *(value for of in arguments if of is not type(None) for value in _values(name, of)))
    if origin is not None and issubclass(origin, Mapping):
        return ({f"<{name}>": f"<{name} value>"},)
    if origin is not None and issubclass(origin, Sequence):
        return ((f"<{name}>",),)
    match annotation():
        case bool() | int() | float():
            return (annotation(7),)
        case Path():
            return (Path(f"/lake/{name}"),)
        case _:
            return (f"<{name}>",)
