"""The package commit."""
