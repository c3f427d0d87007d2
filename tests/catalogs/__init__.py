"""Tables by name in a Hive metastore: `make catalogs`."""
