"""The shared Spark server."""
