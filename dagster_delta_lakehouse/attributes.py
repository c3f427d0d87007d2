"""What several components say in YAML, and the values of the library that they stand for."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import dagster as dg
from pydantic import Field

if TYPE_CHECKING:
    from lakehouse import Expect, Policy, Retry, Table


class PolicyAttributes(dg.Resolvable, dg.Model):
    """What a run may do: the fields of `lakehouse.Policy`. One that is not given has the default."""

    refresh: Literal["auto", "incremental", "strict", "full"] | None = None
    on_new_columns: Literal["add", "ignore", "fail"] | None = None
    on_new_code: Literal["compare", "warn", "ignore"] | None = None
    on_same_rows: Literal["retry", "fail"] | None = None
    statement: Literal["auto", "merge"] | None = None
    ignore_config: list[str] | None = None
    show_rows: int | None = None
    max_changed: float | None = None
    outside: Literal["warn", "ignore", "fail"] | None = None
    deletion_vectors: bool | None = None

    @property
    def value(self) -> "Policy":
        from lakehouse import Policy

        return Policy(**fields_of(self))


class ExpectAttributes(dg.Resolvable, dg.Model):
    """What must hold of each row of a table: the fields of `lakehouse.Expect`."""

    condition: str
    on_failure: Literal["warn", "fail", "drop", "quarantine"] | None = None
    name: str | None = None

    @property
    def value(self) -> "Expect":
        from lakehouse import Expect

        return Expect(**fields_of(self))


class RetryAttributes(dg.Resolvable, dg.Model):
    """How often a commit that lost to a rival is tried again: the fields of `lakehouse.Retry`."""

    attempts: int | None = None
    wait_initial: float | None = None
    wait_max: float | None = None
    deadline: float | None = None
    jitter: float | None = None

    @property
    def value(self) -> "Retry":
        from lakehouse import Retry

        return Retry(**fields_of(self))


class TableAttributes(dg.Resolvable, dg.Model):
    """What is declared of a table: the fields of `lakehouse.Table`."""

    key: str | list[str] | None = Field(default=None, description="The columns that identify a row of the table.")
    partition_by: str | list[str] | None = None
    cluster_by: str | list[str] | None = None
    properties: dict[str, str] | None = None
    name: str | None = Field(default=None, description="A name in the catalog, instead of a path below the root.")
    path: str | None = Field(default=None, description="An address of its own, instead of a path below the root.")
    on_gap: Literal["reconcile", "fail"] | None = None
    columns: dict[str, str] | None = Field(default=None, description="Descriptions by column.")
    policy: PolicyAttributes | None = None
    expect: list[ExpectAttributes] | None = None
    trust_key: bool | None = None
    readers: dict[str, str] | None = Field(
        default=None, description="Who else reads a table that another program writes: how long each may be behind."
    )

    @property
    def value(self) -> "Table":
        from lakehouse import Table

        declared = fields_of(self)
        if self.policy is not None:
            declared["policy"] = self.policy.value
        if self.expect is not None:
            declared["expect"] = [each.value for each in self.expect]
        return Table(**declared)


def fields_of(model: dg.Model) -> dict[str, Any]:
    """The fields of a model that say something."""
    return {name: value for name in type(model).model_fields if (value := getattr(model, name)) is not None}


def folder_of(context: dg.ComponentLoadContext) -> Path:
    """The folder of a component, which Dagster knows by the folder of its YAML or by its Python file."""
    return context.path.parent if context.path.is_file() else context.path


def address_of(root: str, project: Path) -> str:
    """Where a root is: a path begins at the folder of the project, and an address with a scheme is what it is."""
    from lakehouse.delta.location import scheme_of

    return str(project / Path(root).expanduser()) if scheme_of(root) is None else root
