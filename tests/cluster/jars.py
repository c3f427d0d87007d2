"""HDFS for these tests, pinned: `python -m tests.cluster.jars` downloads it next to Delta's jars.

Everything else that a cluster needs comes with pyspark: Spark's master and workers, Hive's metastore, Derby.
"""

import sys

from lakehouse.server.jars import Jar, fetch

HDFS = (
    Jar(
        "org.apache.hadoop",
        "hadoop-client-minicluster",
        "3.5.0",
        "06772d24529e59939915979b3edba204d367750ef7dc5120411f35221dd4818c",
    ),
)
"""A name node and data nodes in one program (56 MB), of the Hadoop version of pyspark 4.2.0."""

if __name__ == "__main__":
    sys.exit(fetch(jars=HDFS))
