"""What differs between this lakehouse's environments, and the source of its demo data."""
