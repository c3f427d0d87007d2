"""What differs between environments: the Spark session and the IO manager.

This file imports nothing, so `make install` fetches the jars, and the server's supervisor starts, without the rest.
"""
