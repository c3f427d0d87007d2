"""What the library requires of Spark."""
