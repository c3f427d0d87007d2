"""The package log."""
