"""The package cursor."""
