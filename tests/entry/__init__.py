"""The package entry."""
