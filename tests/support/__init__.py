"""The package support."""
