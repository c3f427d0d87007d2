"""The package dagster."""
