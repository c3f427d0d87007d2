import os

os.environ.setdefault("SPARK_CONNECT_MODE_ENABLED", "1")  # before a module with @F.udf is imported; see .env
