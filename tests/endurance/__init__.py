"""A lakehouse that runs for minutes or hours while something breaks every minute: `make soak`."""
