"""The laws as properties, over random histories."""
