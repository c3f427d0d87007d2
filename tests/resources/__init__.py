"""The environments and the demo's data."""
