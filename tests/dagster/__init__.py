"""Assets as Dagster runs them."""
