"""The package harness."""
