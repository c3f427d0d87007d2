"""From a result to a statement."""
