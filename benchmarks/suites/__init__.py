"""The package suites."""
