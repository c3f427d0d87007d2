"""A lakehouse that runs for minutes or hours while each minute something is broken on purpose: `make soak`."""
