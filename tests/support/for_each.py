"""A law about each element of a closed set is one test, which reports every element that breaks it."""

import inspect
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any

import pytest

Case = Callable[..., None]


def for_each(names: str, cases: Iterable[Any]) -> Callable[[Case], Case]:
    """Calls a test with each case, as `pytest.mark.parametrize` does, but within one test.

    The cases share the fixtures of the test, so a case leaves them as it found them.

    Args:
        names: The parameters that a case gives, with commas between them.
        cases: A value for each case, or a tuple of values where there are several parameters.
    """
    parameters, listed = [name.strip() for name in names.split(",")], list(cases)
    assert listed, f"no case of {names}"

    def decorate(test: Case) -> Case:
        @wraps(test)
        def over_all(**fixtures: Any) -> None:
            failures = list[BaseException]()
            for case in listed:
                given = dict(zip(parameters, case if len(parameters) > 1 else (case,), strict=True))
                try:
                    test(**given, **fixtures)
                except (Exception, pytest.fail.Exception) as failure:
                    failure.add_note(f"with {', '.join(f'{name}={value!r}' for name, value in given.items())}")
                    failures.append(failure)
            if failures:
                raise BaseExceptionGroup(f"{len(failures)} of {len(listed)} cases", failures)

        signature = inspect.signature(test)
        left = [value for name, value in signature.parameters.items() if name not in parameters]
        over_all.__signature__ = signature.replace(parameters=left)  # type: ignore[attr-defined]
        return over_all

    return decorate
