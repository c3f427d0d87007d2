"""An incremental lakehouse for Dagster, Spark and Delta Lake.

The type of an input says how to read, the type of the result how to write; see README.md. The names are loaded when
they are first asked for, so that the command line and the server's supervisor start without Dagster and PySpark.
"""

from contextlib import suppress as _suppress
from importlib import import_module as _import_module
from importlib.metadata import PackageNotFoundError as _PackageNotFoundError
from importlib.metadata import version as _version
from typing import TYPE_CHECKING as _FOR_THE_TYPE_CHECKER
from typing import Any as _Any

if _FOR_THE_TYPE_CHECKER:
    from lakehouse import scd
    from lakehouse.dagster.definitions.checks import checks
    from lakehouse.dagster.definitions.definitions import incremental
    from lakehouse.dagster.definitions.explaining import explain
    from lakehouse.dagster.definitions.night_schedule import Nightly
    from lakehouse.dagster.definitions.validation import validate
    from lakehouse.dagster.follow.automation import automation
    from lakehouse.dagster.follow.cutting import cut
    from lakehouse.dagster.follow.sensor import change_sensor
    from lakehouse.dagster.io_manager import DeltaIOManager
    from lakehouse.dagster.resources import ClusterSpark, LocalSpark
    from lakehouse.dagster.view_files import views_from
    from lakehouse.delta.expect import Expect
    from lakehouse.delta.log import VersionRange
    from lakehouse.delta.policy import Policy, Retry
    from lakehouse.delta.table import Read, Table
    from lakehouse.errors import LakehouseError
    from lakehouse.read.changes import Changes
    from lakehouse.read.touched import Touched
    from lakehouse.server.settings import spark_settings
    from lakehouse.views.on_spark.touched_by import touched_by
    from lakehouse.writes.aggregate import Aggregate
    from lakehouse.writes.append import Append
    from lakehouse.writes.history import History
    from lakehouse.writes.merge import Merge
    from lakehouse.writes.overwrite import Overwrite
    from lakehouse.writes.snapshot import Snapshot
    from lakehouse.writes.view import View

__version__ = "0.1.0"
__all__ = [
    "Aggregate",
    "Append",
    "Changes",
    "ClusterSpark",
    "DeltaIOManager",
    "Expect",
    "History",
    "LakehouseError",
    "LocalSpark",
    "Merge",
    "Nightly",
    "Overwrite",
    "Policy",
    "Read",
    "Retry",
    "Snapshot",
    "Table",
    "Touched",
    "VersionRange",
    "View",
    "automation",
    "change_sensor",
    "checks",
    "cut",
    "explain",
    "incremental",
    "scd",
    "spark_settings",
    "touched_by",
    "validate",
    "views_from",
]

_HOMES = {
    "dagster.definitions.checks": ("checks",),
    "dagster.definitions.definitions": ("incremental",),
    "dagster.definitions.explaining": ("explain",),
    "dagster.definitions.night_schedule": ("Nightly",),
    "dagster.definitions.validation": ("validate",),
    "dagster.follow.automation": ("automation",),
    "dagster.follow.cutting": ("cut",),
    "dagster.follow.sensor": ("change_sensor",),
    "dagster.io_manager": ("DeltaIOManager",),
    "dagster.resources": ("ClusterSpark", "LocalSpark"),
    "dagster.view_files": ("views_from",),
    "delta.expect": ("Expect",),
    "delta.log": ("VersionRange",),
    "delta.policy": ("Policy", "Retry"),
    "delta.table": ("Read", "Table"),
    "errors": ("LakehouseError",),
    "read.changes": ("Changes",),
    "read.touched": ("Touched",),
    "server.settings": ("spark_settings",),
    "views.on_spark.touched_by": ("touched_by",),
    "writes.aggregate": ("Aggregate",),
    "writes.append": ("Append",),
    "writes.history": ("History",),
    "writes.merge": ("Merge",),
    "writes.overwrite": ("Overwrite",),
    "writes.snapshot": ("Snapshot",),
    "writes.view": ("View",),
}
_PACKAGES = ("scd",)
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> _Any:
    """Loads a public name from the module that defines it (PEP 562)."""
    if name not in _HOME_OF and name not in _PACKAGES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    _refuse_untested_spark()
    if name in _PACKAGES:
        return _import_module(f"{__name__}.{name}")
    try:
        value = getattr(_import_module(f"{__name__}.{_HOME_OF[name]}"), name)
    except AttributeError as error:  # Python would only say that there is no such name
        raise ImportError(f"{name} cannot be imported from {__name__}: {type(error).__name__}: {error}") from error
    globals()[name] = value
    return value


def _refuse_untested_spark() -> None:
    """Refuses a PySpark that was not tested, before an import fails on a name that this PySpark lacks."""
    with _suppress(_PackageNotFoundError):  # the PySpark of a platform has no package metadata
        _import_module(f"{__name__}.server.versions").refuse_untested("Spark", _version("pyspark"))


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
