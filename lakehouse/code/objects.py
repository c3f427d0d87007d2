"""What functions hold: what they wrap, what they have captured, what their code is. Nothing of the user's is called."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import CodeType, FunctionType, MethodType
from typing import Any, cast

from lakehouse.code.modules import project_of
from lakehouse.code.values import type_of

MISSING = object()
"""In place of a value that is not there."""


def project_around(function: FunctionType) -> Path:
    """The folder of the project that a function belongs to."""
    module: Any = function.__module__
    return project_of(path_of(function), module if type(module) is str else "")


def path_of(function: FunctionType) -> str:
    """The file in which a function was written."""
    return function.__code__.co_filename


def content_of(cell: Any) -> Any:
    """The value of a captured variable; one that is not set yet is none of the values that count."""
    try:
        return cell.cell_contents
    except ValueError:
        return MISSING


def functions_of(member: Any) -> list[FunctionType]:
    """The functions that a member of a class is made of."""
    kind = type_of(member)
    if kind is property:
        return [each for each in (member.fget, member.fset, member.fdel) if type(each) is FunctionType]
    function = member.__func__ if kind in (staticmethod, classmethod) else member
    return [function] if type(function) is FunctionType else []


def innermost_of(function: Any) -> Any:
    """The function that no decorator made, as far as decorators say what they wrap."""
    passed = set[int]()
    while id(function) not in passed:
        passed.add(id(function))
        function = next(parts_of(function, captured=False), function)
    return function


def functions_in(value: Any, goes_on: Callable[[FunctionType], bool]) -> Iterator[FunctionType]:
    """The functions that a value is made of: what it wraps, and what its functions have captured.

    Args:
        value: Any value.
        goes_on: Whether to look into a function, too.
    """
    waiting, passed = [value], set[int]()
    for each in waiting:
        if id(each) in passed:
            continue
        passed.add(id(each))
        if type(each) is FunctionType:
            yield each
        if each is value or type(each) is not FunctionType or goes_on(each):
            waiting.extend(parts_of(each))


def parts_of(value: Any, *, captured: bool = True) -> Iterator[Any]:
    """What a function, a partial, a method or a wrapper holds that may be a function, too."""
    kind = type_of(value)
    if kind is partial:
        yield value.func
    elif kind in (MethodType, staticmethod, classmethod):
        yield value.__func__
    else:
        wrapped = inner_of(value)
        if wrapped is not None:
            yield wrapped
    if kind is FunctionType and captured:
        contents = (content_of(cell) for cell in value.__closure__ or ())
        yield from (each for each in contents if type(each) in (FunctionType, partial, MethodType))


def inner_of(value: Any) -> Any:
    """What a wrapper says that it wraps; None if it says nothing."""
    try:
        attributes: Any = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return None
    return cast("dict[str, Any]", attributes).get("__wrapped__") if type_of(attributes) is dict else None


def names_of(code: CodeType) -> set[str]:
    """The names and attributes that code takes from outside of itself."""
    inner = (each for each in code.co_consts if type(each) is CodeType)
    return set(code.co_names).union(*map(names_of, inner))


def shape_of(code: CodeType) -> tuple[Any, ...]:
    """What a function does, wherever it stands."""
    constants = tuple(shape_of(each) if type(each) is CodeType else each for each in code.co_consts)
    return code.co_code, code.co_names, code.co_varnames, constants
