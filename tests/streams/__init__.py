"""Structured Streaming beside our tables: `make streams`."""
