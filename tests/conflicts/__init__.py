"""Which writers can conflict with each other, without Spark."""
