"""A Hive metastore for the tests of this folder: its classes and Derby, its database, are among PySpark's jars."""

import pytest


@pytest.fixture(scope="session")
def more_settings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    place = tmp_path_factory.mktemp("hive")
    return {
        "spark.sql.catalogImplementation": "hive",
        "spark.sql.warehouse.dir": f"file:{place}/warehouse",
        "spark.hadoop.javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={place}/metastore;create=true",
    }
