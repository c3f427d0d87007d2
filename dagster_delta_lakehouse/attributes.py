"""YAML attributes that several components share: the fields of values of the library, which are listed only there."""

from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

import dagster as dg
from pydantic import create_model

from lakehouse.delta.expect import Expect
from lakehouse.delta.location import scheme_of
from lakehouse.delta.policy import Policy, Retry
from lakehouse.delta.table import Table

_M = TypeVar("_M", bound=dg.Model)


def with_fields_of(kind: type[Any]) -> Callable[[type[_M]], type[_M]]:
    """Adds to a model the fields of a value of the library that it does not list itself; None means the default."""
    hints = get_type_hints(kind)

    def decorate(model: type[_M]) -> type[_M]:
        names = [each.name for each in fields(kind) if each.init and each.name not in model.model_fields]
        of_kind: dict[str, Any] = {name: (hints[name] | None, None) for name in names}
        return create_model(
            model.__name__, __base__=model, __module__=model.__module__, __doc__=model.__doc__, **of_kind
        )

    return decorate


@with_fields_of(Policy)
class PolicyAttributes(dg.Resolvable, dg.Model):
    """What a run may do: `lakehouse.Policy`."""

    @property
    def value(self) -> Policy:
        return Policy(**fields_of(self))


@with_fields_of(Expect)
class ExpectAttributes(dg.Resolvable, dg.Model):
    """What must hold of each row of a table: `lakehouse.Expect`."""

    @property
    def value(self) -> Expect:
        return Expect(**fields_of(self))


@with_fields_of(Retry)
class RetryAttributes(dg.Resolvable, dg.Model):
    """How often a commit that lost to a rival is tried again: `lakehouse.Retry`."""

    @property
    def value(self) -> Retry:
        return Retry(**fields_of(self))


@with_fields_of(Table)
class TableAttributes(dg.Resolvable, dg.Model):
    """What is declared of a table: `lakehouse.Table`."""

    policy: PolicyAttributes | None = None
    expect: list[ExpectAttributes] | None = None

    @property
    def value(self) -> Table:
        declared = fields_of(self)
        if self.policy is not None:
            declared["policy"] = self.policy.value
        if self.expect is not None:
            declared["expect"] = [each.value for each in self.expect]
        return Table(**declared)


def fields_of(model: dg.Model) -> dict[str, Any]:
    """The fields of a model that are set."""
    return {name: value for name in type(model).model_fields if (value := getattr(model, name)) is not None}


def folder_of(context: dg.ComponentLoadContext) -> Path:
    """The folder of a component, which Dagster knows by the folder of its YAML or by its Python file."""
    return context.path.parent if context.path.is_file() else context.path


def address_of(root: str, project: Path) -> str:
    """Where a root is: a path begins at the folder of the project; an address with a scheme is used as it is given."""
    return str(project / Path(root).expanduser()) if scheme_of(root) is None else root
