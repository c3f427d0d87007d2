"""Cursors found in logs that tests make."""
