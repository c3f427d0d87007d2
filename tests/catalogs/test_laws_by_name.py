"""The laws of tables with a catalog name, repeated on a Hive metastore."""

import pytest

from tests.spark.test_catalog import (
    lake,
    test_a_directory_left_by_a_writer_that_died_does_not_keep_a_named_table_from_being_created,
    test_a_name_in_a_schema_that_is_not_there_is_refused,
    test_a_named_table_of_somebody_else_is_not_written,
    test_a_table_that_the_catalog_has_forgotten_is_not_replaced_and_goes_on_once_it_is_registered,
    test_a_view_is_refused_for_it_has_no_versions,
    test_each_piece_of_a_named_tables_feed_is_its_own,
    test_named_tables_are_created_followed_overwritten_and_restored_as_tables_at_a_path_are,
)

pytestmark = pytest.mark.catalogs

__all__ = [
    "lake",
    "test_a_directory_left_by_a_writer_that_died_does_not_keep_a_named_table_from_being_created",
    "test_a_name_in_a_schema_that_is_not_there_is_refused",
    "test_a_named_table_of_somebody_else_is_not_written",
    "test_a_table_that_the_catalog_has_forgotten_is_not_replaced_and_goes_on_once_it_is_registered",
    "test_a_view_is_refused_for_it_has_no_versions",
    "test_each_piece_of_a_named_tables_feed_is_its_own",
    "test_named_tables_are_created_followed_overwritten_and_restored_as_tables_at_a_path_are",
]
