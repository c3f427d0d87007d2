"""From a position to changes."""
