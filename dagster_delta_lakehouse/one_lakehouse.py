"""`Lakehouse`: where the tables are, which Spark reads and writes them, and what runs by itself."""

import os
from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import dagster as dg
from pydantic import Field

from dagster_delta_lakehouse.attributes import PolicyAttributes, RetryAttributes, address_of
from dagster_delta_lakehouse.scaffolders import LakehouseScaffolder
from lakehouse.errors import DefinitionError, SetupError

if TYPE_CHECKING:
    from lakehouse import ClusterSpark, LocalSpark, Nightly

ENVIRONMENT = "LAKEHOUSE_ENV"
"""The variable that chooses one of the environments."""


class LocalSparkAttributes(dg.Resolvable, dg.Model):
    """Spark on this machine, with its own Java and jars: `lakehouse.LocalSpark`."""

    type: Literal["local"] = "local"
    spark_config: dict[str, Any] = Field(
        default={}, description="Settings of Spark, in addition to those of the library."
    )
    where: Literal["server", "process"] = Field(
        default="server", description="Whether all processes share a server, or each run has a JVM of its own."
    )
    idle: float = Field(default=900, description="Seconds without use after which the server ends.")

    def resource(self, root: str) -> "LocalSpark":
        """The resource of the tables below a root."""
        from lakehouse import LocalSpark
        from lakehouse.dagster.resources import Where

        return LocalSpark(root=root, spark_config=self.spark_config, where=Where(self.where), idle=self.idle)


class ClusterSparkAttributes(dg.Resolvable, dg.Model):
    """The session of a cluster, or of the Spark Connect server at SPARK_REMOTE: `lakehouse.ClusterSpark`."""

    type: Literal["cluster"]
    spark_config: dict[str, Any] = Field(default={}, description="Settings of Spark.")
    delta: bool = Field(default=False, description="Whether the session fetches Delta's jars (the extra 'cluster').")

    def resource(self, root: str) -> "ClusterSpark":
        """The resource, wherever the tables are."""
        from lakehouse import ClusterSpark

        return ClusterSpark(spark_config=self.spark_config, delta=self.delta)


def _resolve_spark(context: dg.ResolutionContext, model: Any) -> LocalSparkAttributes | ClusterSparkAttributes:
    """The kind of Spark that `type` names. Dagster would try both, and not say where the value is that fits neither."""
    match context.resolve_value(model.type, as_type=str):
        case "local":
            return LocalSparkAttributes.resolve_from_model(context, model)
        case "cluster":
            return ClusterSparkAttributes.resolve_from_model(context, model)
        case other:
            raise ValueError(f"the type is 'local' or 'cluster', not {other!r}")


SparkAttributes: TypeAlias = Annotated[
    LocalSparkAttributes | ClusterSparkAttributes,
    dg.Resolver(_resolve_spark, model_field_type=LocalSparkAttributes.model() | ClusterSparkAttributes.model()),
]


class NightlyAttributes(dg.Resolvable, dg.Model):
    """When the work of a night begins, and how much of it a night does: `lakehouse.Nightly`."""

    cron_schedule: str
    limit_minutes: float = Field(default=120, description="For how long a night starts further checks or statements.")
    timezone: str | None = Field(default=None, description="The time zone of the cron schedule; UTC if not given.")
    max_bytes: int | None = Field(default=None, description="How many bytes of files a night of upkeep rewrites.")

    @property
    def value(self) -> "Nightly":
        from lakehouse import Nightly

        return Nightly(self.cron_schedule, timedelta(minutes=self.limit_minutes), self.timezone, self.max_bytes)


class EnvironmentAttributes(dg.Resolvable, dg.Model):
    """Where one environment has its tables; what it leaves out is taken from the component."""

    root: str
    spark: SparkAttributes | None = None
    storage_options: dict[str, str] | None = None


@dg.scaffold_with(LakehouseScaffolder)
class Lakehouse(dg.Component, dg.Resolvable, dg.Model):
    """Where the tables are, which Spark reads and writes them, and what runs by itself.

    `incremental(dg.load_from_defs_folder(...))` in definitions.py adds the sensor, the nightly checks and the upkeep,
    because they are about the tables of the whole project.
    """

    root: str = Field(
        description="Where the tables are: asset silver/orders at <root>/silver/orders. A path begins at the project's "
        "folder; an address has a scheme (s3a://bucket/lake)."
    )
    spark: SparkAttributes = Field(default=LocalSparkAttributes())
    storage_options: dict[str, str] | None = Field(
        default=None,
        description="How this process reads logs of an object store, as `deltalake` takes the options.",
    )
    environments: dict[str, EnvironmentAttributes] = Field(
        default={},
        description="Other roots by the names of environments, each with its Spark. LAKEHOUSE_ENV names one.",
    )
    policy: PolicyAttributes = Field(
        default=PolicyAttributes(), description="What runs may do, if a table does not say otherwise."
    )
    retry: RetryAttributes = Field(default=RetryAttributes(), description="How often a lost commit is tried again.")
    sensor: str | None = Field(
        default="carry_changes",
        description="The name of the sensor that starts runs when sources change (off until it is switched on).",
    )
    nightly_checks: str | NightlyAttributes | None = Field(
        default=None, description="When tables are compared with a full recompute, as a cron schedule: '0 3 * * *'."
    )
    upkeep: str | NightlyAttributes | None = Field(
        default=None, description="When tables are compacted and past files removed, as a cron schedule: '0 4 * * 0'."
    )
    executor: Literal["in_process", "multiprocess"] | None = Field(
        default="in_process", description="Where the steps of a run run. Null: something else in the project says it."
    )

    @classmethod
    def get_spec(cls) -> dg.ComponentTypeSpec:
        return dg.ComponentTypeSpec(tags=["delta", "spark"])

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        from lakehouse import DeltaIOManager

        self._refuse_others(context)
        here = self.environment
        root = address_of(here.root, context.project_root)
        spark = (here.spark or self.spark).resource(root)
        options = self.storage_options if here.storage_options is None else here.storage_options
        manager = DeltaIOManager(
            spark=spark,
            root=root,
            storage_options=options,
            conflicts=self.retry.value,
            policy=self.policy.value,
        )
        return dg.Definitions(
            resources={"spark": spark, "io_manager": manager}, executor=self._executor(), metadata=self._additions()
        )

    def _refuse_others(self, context: dg.ComponentLoadContext) -> None:
        """Refuses a second component, because both would give the project the resources `spark` and `io_manager`."""
        count = len(context.component_tree.get_all_components(Lakehouse))
        if count > 1:
            raise DefinitionError(
                f"This project has {count} components Lakehouse, and one project has one.",
                "Keep one of them. Other roots, for other environments, are its attribute `environments`.",
            )

    @property
    def environment(self) -> EnvironmentAttributes:
        """The environment that the variable chooses, if the component has environments; else the component's root."""
        name = os.environ.get(ENVIRONMENT)
        if not name or not self.environments:
            return EnvironmentAttributes(root=self.root)
        if name not in self.environments:
            problem = f"there is no such environment. Use {' or '.join(self.environments)}, or leave it out."
            raise SetupError.variable(ENVIRONMENT, name, problem)
        return self.environments[name]

    def _executor(self) -> dg.ExecutorDefinition | None:
        match self.executor:
            case "in_process":
                return dg.in_process_executor
            case "multiprocess":
                return dg.multiprocess_executor
            case None:
                return None

    def _additions(self) -> Mapping[str, Any]:
        """What `incremental` is to add, in the metadata of definitions, where it reads that."""
        from lakehouse.dagster.definitions.definitions import Additions

        named = (self.nightly_checks, self.upkeep)
        night, upkeep = (each.value if isinstance(each, NightlyAttributes) else each for each in named)
        return Additions().with_named(self.sensor, night, upkeep).metadata
