"""The package server."""
