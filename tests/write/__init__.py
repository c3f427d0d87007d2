"""The package write."""
