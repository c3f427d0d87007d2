"""The package spark."""
