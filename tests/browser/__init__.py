"""Dagster's pages in a real browser: run by `make browser`."""
