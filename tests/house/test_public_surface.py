"""What `from lakehouse import …` offers is a promise; it grows on purpose or not at all."""

import inspect
import subprocess
import sys
from types import ModuleType

import lakehouse

PUBLIC = {
    "inputs": {"Changes", "Read", "Touched", "VersionRange", "touched_by"},
    "writes": {"Aggregate", "Append", "History", "Merge", "Overwrite", "Snapshot", "View"},
    "tables": {"Expect", "Policy", "Table"},
    "dagster": {
        "DeltaIOManager",
        "Nightly",
        "Retry",
        "automation",
        "change_sensor",
        "checks",
        "cut",
        "explain",
        "incremental",
        "validate",
        "views_from",
    },
    "spark": {"ClusterSpark", "LocalSpark", "spark_settings"},
    "errors": {"LakehouseError"},
    "packages": {"scd"},
}


def test_the_public_names_are_these_and_no_others():
    promised = set().union(*PUBLIC.values())
    assert set(lakehouse.__all__) == promised
    for name in lakehouse.__all__:
        getattr(lakehouse, name)
    offered = {name for name, value in vars(lakehouse).items() if not isinstance(value, ModuleType)}
    assert {name for name in offered if not name.startswith("_")} == promised - PUBLIC["packages"]


def test_the_public_names_are_sorted_so_that_a_new_one_shows_in_one_line():
    assert list(lakehouse.__all__) == sorted(lakehouse.__all__)


def test_every_public_name_says_what_it_is():
    for name in lakehouse.__all__:
        assert inspect.getdoc(getattr(lakehouse, name)), name


def test_a_public_class_is_defined_once_under_the_name_it_is_offered_by():
    for name in set(lakehouse.__all__) - PUBLIC["packages"]:
        assert getattr(lakehouse, name).__name__ == name
        assert getattr(lakehouse, name).__module__.startswith("lakehouse.")


def test_the_functions_of_a_public_package_say_what_they_are():
    from lakehouse import scd

    assert scd.__all__ == sorted(scd.__all__)
    assert all(inspect.getdoc(getattr(scd, name)) for name in scd.__all__)


def test_a_name_that_another_dagster_lacks_is_said_with_what_it_lacks():
    """An `AttributeError` in a module that is imported would become "cannot import name", which says nothing."""
    text = "import dagster; del dagster.ConfigurableIOManager; from lakehouse import DeltaIOManager"
    ran = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False)
    last = ran.stderr.splitlines()[-1]
    assert last.startswith("ImportError: DeltaIOManager cannot be imported from lakehouse: AttributeError: "), last
    assert "ConfigurableIOManager" in last
