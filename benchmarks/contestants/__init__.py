"""What is measured: this library, and what a user would write instead."""
