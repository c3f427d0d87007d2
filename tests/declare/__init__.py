"""The package declare."""
