"""What a compiled function does, as text: its instructions with their values, wherever the function stands.

It has no comments, format, docstrings and annotations of the function, and an edit of the file since does not change
it, because it is what runs.
"""

import dis
from collections.abc import Iterator, Mapping
from functools import lru_cache
from importlib.util import resolve_name
from types import CodeType
from typing import Any, cast

from lakehouse.dagster.code.source import Chain


@lru_cache(maxsize=1_024)
def _instructions(code: CodeType) -> tuple[dis.Instruction, ...]:
    return tuple(dis.get_instructions(code))


def listing(code: CodeType, instead: Mapping[str, str]) -> Iterator[str]:
    """The lines of a function and of the functions in it.

    Args:
        code: The function's code.
        instead: What stands for some of its texts.
    """
    counts = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount)
    yield f"{code.co_name} {code.co_varnames} {counts} {code.co_flags & 0x3FF} {code.co_exceptiontable.hex()}"
    for each in _instructions(code):
        if type(each.argval) is CodeType:
            yield from listing(each.argval, instead)
        elif each.opcode in dis.hasconst:
            text = instead.get(each.argval) if type(each.argval) is str else None
            yield f"{each.opname} {_constant(each.argval) if text is None else text}"
        else:
            yield f"{each.opname} {each.argval}"


def _constant(value: Any) -> str:
    if type(value) is frozenset:  # each process has another order
        return f"{{{', '.join(sorted(map(_constant, cast('frozenset[Any]', value))))}}}"
    if type(value) is tuple:
        return f"({', '.join(map(_constant, cast('tuple[Any, ...]', value)))})"
    return hex(value) if type(value) is int else repr(value)


def names_of(code: CodeType) -> list[Chain]:
    """The names that a function takes from its module, sorted, each with the attributes that it takes of it."""
    return sorted(set(_names(code)))


def _names(code: CodeType) -> Iterator[Chain]:
    chain = list[str]()
    for each in _instructions(code):
        if each.opname in ("LOAD_ATTR", "LOAD_METHOD") and chain:
            chain.append(str(each.argval))
            continue
        if chain:
            yield tuple(chain)
        chain = [str(each.argval)] if each.opname in ("LOAD_GLOBAL", "LOAD_NAME") else []
        if type(each.argval) is CodeType:
            yield from _names(each.argval)


def assigned_in(code: CodeType) -> set[str]:
    """The captured variables that a function assigns: its state, which is no code."""
    return {str(each.argval) for each in _instructions(code) if each.opname in ("STORE_DEREF", "DELETE_DEREF")}


def imports_of(code: CodeType, package: str) -> Iterator[str]:
    """The modules that a function may import when it is called, by their whole names."""
    before = list[Any]()
    for each in _instructions(code):
        if each.opname == "IMPORT_NAME":
            level, names = before[-2:]
            module = resolve_name("." * level + str(each.argval), package) if level else str(each.argval)
            yield module
            yield from (f"{module}.{name}" for name in names or ())
        if type(each.argval) is CodeType:
            yield from imports_of(each.argval, package)
        before.append(each.argval)
