"""Spark that is not the library's own: run by `make cluster`."""
