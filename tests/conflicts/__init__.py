"""The package conflicts."""
