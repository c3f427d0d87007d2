"""Delta's jars for each Spark, pinned by version and SHA-256.

`lakehouse spark install` fetches them once, and so does a server that starts without them, with the Ivy that ships
inside the pyspark wheel. A session loads the local files: nothing is resolved at start, and a file that is not the
pinned one is refused.
"""

import hashlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from xml.sax.saxutils import quoteattr

from lakehouse.server.jvm import java
from lakehouse.server.versions import minor, refuse_untested

DIRECTORY = Path(sys.prefix, "jars")
REPOSITORY = "DEFAULT_ARTIFACT_REPOSITORY"
"""The environment variable that names a Maven repository, as in Spark itself; without it, Ivy's default is used."""


@dataclass(frozen=True, slots=True)
class Jar:
    """One file of Maven's repository."""

    organisation: str
    name: str
    revision: str
    sha256: str

    @property
    def file_name(self) -> str:
        return f"{self.name}-{self.revision}.jar"


_PINNED = """
4.0 delta io.delta delta-spark_4.0_2.13 4.4.0 49e899667168b9412f83cbe894ce264107d7b896d6c5e12edca4e216845c1104
4.1 delta io.delta delta-spark_4.1_2.13 4.4.0 75a9400986853c061f5109f012547de2545a5759e5e752e5ef633dabe16a4f10
4.2 delta io.delta delta-spark_4.2_2.13 4.4.0 27d4fd8b1f879535c573ed1c718177d6a27f24d3e626ba02e216369725721ead
* delta io.delta delta-storage 4.4.0 c46735481fa8e326b0957be02b4420cbcab4b325bb08009b7f2045a95133f1cc
* delta io.delta delta-kernel-api 4.4.0 ee9b5a14ac3b7efdff4d61a58478fe8eb0e5a3fbca43889dca7290795fe79a11
* delta io.delta delta-kernel-defaults 4.4.0 225c975199e4718b38ee5b7e6da7f19e9585024262b2cec2656b32151a856b0b
* delta io.delta delta-kernel-unitycatalog 4.4.0 cea22dfb4ac562b3cd27bf652697750e8336009d73fb06631363aaaad5345ffa
* delta io.unitycatalog unitycatalog-client 0.6.0 48257499a86b801a3e2372cec55ac226ca1c1c7eabe5c118e7302f29a1fdbc19
* delta io.unitycatalog unitycatalog-hadoop 0.6.0 c47b63c961c87102b9e1d63809a0915ba4c86b7652f57c8d39ca3a05b441a150
4.0 s3 org.apache.hadoop hadoop-aws 3.4.1 01334a07e179cae2b7e251f24857f11e3759108c9d6a79dcbe362a4295227da2
4.0 s3 software.amazon.awssdk bundle 2.24.6 890bf9f2a80488f7a8aa8277d64d13a9ea3a3cdff8607ef3b63a878d8b467b41
4.1 s3 org.apache.hadoop hadoop-aws 3.4.2 d2d24e6b715b5656b9d238bf13b6682a07e2004dd36aad74a73aeb854319f4d9
4.1 s3 software.amazon.awssdk bundle 2.29.52 62638f33045690c6bc5e496b54b0b2e89a9ad38cbedacdf6e017fea6bc85f55c
4.1 s3 software.amazon.s3.analyticsaccelerator analyticsaccelerator-s3 1.2.1 11029552e37408e41e689b20150f4b372e0b4f232de321ccafd0fcf443cdfb5a
4.2 s3 org.apache.hadoop hadoop-aws 3.5.0 66bd9eefb938b1a1657487324b63c13df2d8b17164a1dd24e0ef37b905bc5baa
4.2 s3 software.amazon.awssdk bundle 2.35.4 db4b55f24ad1b4e70f17eb1717a4de76a8dadc5a27d764be7c44ff67b2c1c677
4.2 s3 software.amazon.s3.analyticsaccelerator analyticsaccelerator-s3 1.3.1 4959a9747cbb479c73c3ffbcd479bee5b014f8b2880994585a8693fb9d24675e
"""  # noqa: E501
"""In each line: a minor version of Spark, or * for all; the use; Maven's group, artifact and version; SHA-256.

Each Spark has its own build of one Delta, whose other 26 dependencies are in pyspark/jars already. For S3: the client
of the Hadoop that a pyspark ships, and what that client needs.
"""


def delta_jars(spark: str | None = None) -> tuple[Jar, ...]:
    """Delta's jars for a version of Spark; for the installed PySpark if none is given.

    Raises:
        SetupError (VERSION): There is no Delta for it.
    """
    return _jars_for("delta", spark or version("pyspark"))


def s3_jars(spark: str | None = None) -> tuple[Jar, ...]:
    """What Spark needs beyond Delta's jars for tables on S3 (560 to 660 MB)."""
    return _jars_for("s3", spark or version("pyspark"))


def _jars_for(use: str, spark: str) -> tuple[Jar, ...]:
    refuse_untested("Spark", spark)
    rows = [line.split() for line in _PINNED.split("\n") if line]
    return tuple(
        Jar(group, name, revision, sha256)
        for of, each, group, name, revision, sha256 in rows
        if each == use and of in ("*", minor(spark))
    )


def class_path(directory: Path = DIRECTORY, jars: Sequence[Jar] = ()) -> str:
    """The jars as a class path: named one by one, so that another file in the directory is not loaded."""
    return ":".join(str(directory / jar.file_name) for jar in jars or delta_jars())


def fetch(
    directory: Path = DIRECTORY,
    jars: Sequence[Jar] = (),
    retrieve: Callable[[list[Jar], Path, str | None], str] | None = None,
) -> str | None:
    """Fetches every missing jar, from the repository that the environment names (`REPOSITORY`).

    A jar with the right content stays, so the files can be copied by hand if the machine reaches no repository.

    Args:
        directory: Where the jars are to be.
        jars: Which jars; Delta's for the installed PySpark unless they are given.
        retrieve: Fetches them into a directory from a repository, and returns its output; Ivy unless it is given.

    Returns:
        What failed; None on success.
    """
    absent = missing(directory, jars or delta_jars())
    if not absent:
        return None
    try:
        directory.mkdir(parents=True, exist_ok=True)
        # Within the target directory, so that a jar appears under its name whole and checked, or not at all.
        with tempfile.TemporaryDirectory(dir=directory) as scratch:
            answer = (retrieve or _retrieve)(absent, Path(scratch), os.environ.get(REPOSITORY))
            for jar in absent:
                if not _is_pinned(jar, Path(scratch)):
                    return (
                        f"{jar.file_name} could not be fetched with the pinned content. Nothing was installed. Name a "
                        f"Maven repository that this machine reaches in {REPOSITORY} and run lakehouse spark install, "
                        f"or put the file into {directory} yourself. Ivy says:\n{answer}"
                    )
            for jar in absent:
                Path(scratch, jar.file_name).replace(directory / jar.file_name)
    except (OSError, subprocess.SubprocessError) as error:
        return f"Delta's jars could not be fetched into {directory}: {error}. Nothing was installed."
    return None


def missing(directory: Path, jars: Sequence[Jar]) -> list[Jar]:
    """The jars that are not in a directory, or not with the pinned content."""
    return [jar for jar in jars if not _is_pinned(jar, directory)]


def _is_pinned(jar: Jar, directory: Path) -> bool:
    path = directory / jar.file_name
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() == jar.sha256


def _retrieve(jars: list[Jar], directory: Path, repository: str | None) -> str:
    """Lets Ivy fetch the jars from a repository, or from its default one, and returns the end of its output."""
    pyspark = find_spec("pyspark")
    if pyspark is None or pyspark.origin is None:
        return "pyspark, which ships Ivy, is not installed."
    ivy = next(Path(pyspark.origin).parent.glob("jars/ivy-*.jar"))
    wanted = "".join(
        f'<dependency org="{jar.organisation}" name="{jar.name}" rev="{jar.revision}" conf="jars->master"/>'
        for jar in jars
    )
    module = directory / "ivy.xml"
    module.write_text(
        '<ivy-module version="2.0"><info organisation="lakehouse" module="jars"/>'
        # Maven's "master" is the artifact itself, without its dependencies, sources and documentation.
        '<configurations><conf name="jars"/></configurations>'
        f"<dependencies>{wanted}</dependencies></ivy-module>"
    )
    command = [java() or "java", "-jar", str(ivy), "-m2compatible", "-ivy", str(module)]
    command += ["-cache", str(directory / "cache"), "-retrieve", str(directory / "[artifact]-[revision].[ext]")]
    if repository:
        settings = directory / "settings.xml"
        settings.write_text(
            '<ivysettings><settings defaultResolver="repository"/><resolvers>'
            f'<ibiblio name="repository" m2compatible="true" root={quoteattr(repository)}/>'
            "</resolvers></ivysettings>"
        )
        command += ["-settings", str(settings)]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    output = (line for line in (answer.stdout + answer.stderr).splitlines() if not line.startswith("\tat "))
    return "\n".join(list(output)[-10:])
