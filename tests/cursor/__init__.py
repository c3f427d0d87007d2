"""Cursors that are found in logs made by tests."""
