"""The package laws."""
