"""The package contestants."""
