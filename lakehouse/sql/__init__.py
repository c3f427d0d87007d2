"""The package sql."""
