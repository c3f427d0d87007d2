"""Structured Streaming together with tables of the library: `make streams`."""
