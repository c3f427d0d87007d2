"""What the library asks of Spark."""
