"""Who can conflict with whom, without Spark."""
