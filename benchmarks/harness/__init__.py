"""How things are measured."""
