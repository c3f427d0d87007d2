"""Delta's log as it is read."""
