"""Text that reaches SQL."""
