"""The package read."""
