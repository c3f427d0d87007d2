"""The package house."""
