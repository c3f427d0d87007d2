"""What is measured: this library, and what one would write instead."""
