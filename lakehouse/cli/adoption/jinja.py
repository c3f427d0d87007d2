"""Renders the templates of a dbt project without dbt: as of a full refresh, so that is_incremental() is false."""

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from types import SimpleNamespace
from typing import Any, NoReturn

from jinja2 import StrictUndefined
from jinja2.sandbox import SandboxedEnvironment

MACRO = re.compile(r"\{%-?\s*macro\s+(\w+)\s*\(.*?\{%-?\s*endmacro\s*-?%\}", re.DOTALL)


class UnrenderedError(Exception):
    """Why a template cannot be rendered without dbt, as a clause."""


class _Returned(Exception):  # noqa: N818  # dbt's return() ends a macro, and is not an error
    def __init__(self, value: Any) -> None:
        self.value = value
        super().__init__()


class _Unknown(StrictUndefined):
    """A macro that is in no file, or something that only a run of dbt knows: `execute`, `run_query`, `target.name`."""

    def __getattr__(self, name: str) -> "_Unknown":
        if name.startswith("__") or name in ("unsafe_callable", "alters_data"):  # the sandbox looks for these
            raise AttributeError(name)
        return _Unknown(name=f"{self._undefined_name}.{name}")

    def __call__(self, *_args: Any, **_named: Any) -> NoReturn:
        raise UnrenderedError(f"the macro {self._undefined_name} is in no file of the project")


class _Sandbox(SandboxedEnvironment):
    """Jinja that reaches nothing of this process, but does reach macros whose names begin with an underscore."""

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        is_macro = isinstance(obj, SimpleNamespace) and not attr.startswith("__")
        return is_macro or super().is_safe_attribute(obj, attr, value)


@dataclass(frozen=True)
class Templates:
    """What templates may name.

    Args:
        adapter: The adapter of dbt, in whose SQL the project is written.
        macros: The texts of all macros, by name.
        packages: The names before the dot in calls of macros.
        variables: The values of var().
        ref: The name of the table of a model, a seed or a snapshot.
        source: The name of the table of a source.
    """

    adapter: str
    macros: Mapping[str, str]
    packages: frozenset[str]
    variables: Mapping[str, Any]
    ref: Callable[..., str]
    source: Callable[[str, str], str]
    _environment: SandboxedEnvironment = field(
        default_factory=lambda: _Sandbox(extensions=["jinja2.ext.do"], undefined=_Unknown)
    )

    def render(self, template: str, this: str) -> tuple[str, Mapping[str, Any]]:
        """The SQL of a template, and what its config() says.

        Raises:
            UnrenderedError: It needs a macro that is missing, or a run of dbt.
        """
        config = _Config()
        names = self._names() | {"this": this, "config": config}
        try:
            return self._environment.from_string(template, globals=names).render(), config.settings
        except UnrenderedError:
            raise
        except Exception as error:  # a macro may fail in any way
            raise UnrenderedError(f"only dbt can render it: {error}") from error

    def _names(self) -> dict[str, Any]:
        macros = {name: self._macro(name) for name in self.macros}
        return {
            **dict.fromkeys(self.packages, SimpleNamespace(**macros)),
            "ref": self.ref,
            "source": self.source,
            "var": _values_of("var", self.variables),
            "env_var": _values_of("env_var", os.environ),
            "is_incremental": lambda: False,
            "return": _return,
            "log": _say_nothing,
            "target": SimpleNamespace(type=self.adapter),
            "adapter": SimpleNamespace(dispatch=self._dispatch),
            "api": SimpleNamespace(Column=SimpleNamespace(translate_type=str)),
            **macros,
        }

    def _macro(self, name: str) -> Callable[..., Any]:
        @cache
        def macro() -> Callable[..., Any]:
            text = f"{self.macros[name]}{{% set made = {name} %}}"  # a module hides names that begin with _
            return vars(self._environment.from_string(text, globals=self._names()).module)["made"]

        def call(*args: Any, **named: Any) -> Any:
            try:
                return macro()(*args, **named)
            except _Returned as returned:
                return returned.value

        return call

    def _dispatch(self, name: str, *_package: str, **_named: str) -> Callable[..., Any]:
        """The form of a macro for the adapter."""
        forms = (f"{form}__{name}" for form in (self.adapter, "default"))
        form = next((form for form in forms if form in self.macros), None)
        return self._macro(form) if form is not None else _Unknown(name=name)


class _Config:
    """dbt's config(), which keeps the settings that a model gives itself."""

    def __init__(self) -> None:
        self.settings = dict[str, Any]()

    def __call__(self, *given: Mapping[str, Any], **settings: Any) -> str:
        for each in (*given, settings):
            self.settings |= each
        return ""

    def get(self, name: str, default: Any = None) -> Any:
        return self.settings.get(name, default)


def _values_of(function: str, values: Mapping[str, Any]) -> Callable[..., Any]:
    def value_of(name: str, *default: Any) -> Any:
        if name not in values and not default:
            raise UnrenderedError(f"{function}('{name}') has no value")
        return values.get(name, *default)

    return value_of


def _return(value: Any = "") -> NoReturn:
    raise _Returned(value)


def _say_nothing(*_args: Any, **_named: Any) -> str:
    return ""
