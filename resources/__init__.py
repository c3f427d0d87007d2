"""What differs between environments: the Spark session and the IO manager.

This file imports nothing: `make install` runs resources.java and resources.jars before any package is there.
"""
